"""A two-layer classifier on scikit-learn's digits, trained by SGD with momentum.

1,797 images of 8 x 8 pixels, shipped inside the scikit-learn package. Weights, batches and
order are the same on every device: they are made on the CPU, once.
"""

from __future__ import annotations

from typing import NamedTuple

import accounting
import torch
from sklearn.datasets import load_digits
from subgraph import model

TEST = 360
BATCH = 99  # fifteen to an epoch, and the last is not full
EPOCHS = 30
RATE, MOMENTUM = 0.1, 0.9
SPLIT_SEED = 7


class Data(NamedTuple):
    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


class Run(NamedTuple):
    """One training. Bytes are what the code below asked to be moved, each way."""

    losses: torch.Tensor
    accuracy: float
    account: accounting.Account
    bytes_to_device: int
    bytes_from_device: int


class Training(NamedTuple):
    device: Run
    cpu: Run
    exact: Run
    """On the CPU in f64."""


def digits(dtype: torch.dtype) -> Data:
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=torch.Generator().manual_seed(SPLIT_SEED))
    images = torch.from_numpy(bunch.data).div(16).to(dtype)[order]
    labels = torch.from_numpy(bunch.target).long()[order]
    return Data(images[TEST:], labels[TEST:], images[:TEST], labels[:TEST])


def train(device: str, dtype: torch.dtype) -> Run:
    data = digits(dtype)
    network = model(dtype)
    sent = [*network.parameters(), data.train_images, data.train_labels, data.test_images]
    before = accounting.measure(device)
    network.to(device)
    images, labels = data.train_images.to(device), data.train_labels.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM)
    losses: list[torch.Tensor] = []
    for _ in range(EPOCHS):
        for start in range(0, len(images), BATCH):
            optimizer.zero_grad()
            scores = network(images[start : start + BATCH])
            loss = torch.nn.functional.nll_loss(scores, labels[start : start + BATCH])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    curve = torch.stack(losses).cpu()
    with torch.no_grad():
        guesses = network(data.test_images.to(device)).argmax(dim=1).cpu()
    read = [curve, guesses]
    return Run(
        losses=curve.double(),
        accuracy=(guesses == data.test_labels).double().mean().item(),
        account=accounting.since(device, before),
        bytes_to_device=sum(tensor.nbytes for tensor in sent),
        bytes_from_device=sum(tensor.nbytes for tensor in read),
    )


def train_all(device: str) -> Training:
    return Training(
        device=train(device, torch.float32),
        cpu=train("cpu", torch.float32),
        exact=train("cpu", torch.float64),
    )
