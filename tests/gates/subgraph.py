"""The one subgraph that is run eagerly, captured, and compared with a reference.

Two linear layers with a ReLU between them, log-softmax and negative log-likelihood: the
classifier of gate 2, for one batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from numerics import UNIT, gamma, product_bound

SEED = 20261129
BATCH, INPUTS, HIDDEN, CLASSES = 32, 64, 64, 10
EXP_ULP = LOG_ULP = 2  # driver_shim/spec/isa.toml


class Outcome(NamedTuple):
    """Results on the CPU. `gradients` are those of the parameters, in order."""

    scores: torch.Tensor
    loss: torch.Tensor
    gradients: tuple[torch.Tensor, ...]


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(INPUTS, HIDDEN)
        self.second = torch.nn.Linear(HIDDEN, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(images))
        return torch.nn.functional.log_softmax(self.second(hidden), dim=1)


def model(dtype: torch.dtype = torch.float32) -> Classifier:
    """The same weights each time: made in f32 on the CPU, then converted."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return Classifier().to(dtype)


def batch(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randn(BATCH, INPUTS, generator=generator).to(dtype)
    return images, torch.randint(0, CLASSES, (BATCH,), generator=generator)


def run(device: str, dtype: torch.dtype = torch.float32, compiler: str = "") -> Outcome:
    """Forward and backward on `device`; captured for `compiler` when one is named."""
    network = model(dtype).to(device)
    call = torch.compile(network, backend=compiler, fullgraph=True) if compiler else network
    images, labels = (tensor.to(device) for tensor in batch(dtype))
    scores = call(images)
    loss = torch.nn.functional.nll_loss(scores, labels)
    loss.backward()
    gradients = tuple(p.grad.cpu() for p in network.parameters() if p.grad is not None)
    return Outcome(scores.detach().cpu(), loss.detach().cpu(), gradients)


def score_bound(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Elementwise bound on the scores' error in `dtype` arithmetic: a running analysis in f64.

    Linear layers by gamma of their length plus the bias; ReLU does not enlarge an error;
    log-softmax y_j - m - log(sum exp(y_i - m)) adds the roundings of each of its steps.
    """
    network, (images, _) = model(torch.float64), batch(torch.float64)
    unit = UNIT[dtype]
    with torch.no_grad():
        error = torch.zeros_like(images)
        value = images
        for layer in (network.first, network.second):
            weight = layer.weight.t()
            carried = error @ weight.abs()
            length = gamma(layer.in_features + 1, dtype)
            made = product_bound(value, weight, dtype) * (length / gamma(layer.in_features, dtype))
            error = carried * (1 + length) + made + length * layer.bias.abs()
            value = layer(value)
            if layer is network.first:
                value = torch.relu(value)
        top = value.max(dim=1, keepdim=True).values
        shifted = value - top
        worst = error.max(dim=1, keepdim=True).values
        shift_error = 2 * worst + unit * (shifted.abs() + 2 * worst)
        # exp: the argument's error is relative in the result; then its own rounding; then the sum.
        relative = shift_error.max(dim=1, keepdim=True).values * 1.01
        relative = relative + (2 * EXP_ULP + 1) * unit + gamma(CLASSES, dtype)
        logarithm = shifted.exp().sum(dim=1, keepdim=True).log()
        log_error = relative * 1.01 + 2 * LOG_ULP * unit * logarithm.abs()
        total = shift_error + log_error
        return total + unit * ((shifted - logarithm).abs() + total)
