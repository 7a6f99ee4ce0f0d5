"""A model that learns: the whole path of eager training, counted and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from subgraph import SEED
from tolerances import tolerance

if TYPE_CHECKING:
    from gate2_eager.classifier import Training


@pytest.mark.check("gate2.classifier.loss_curve", obligations=["G2", "N1"], kind="workload result")
def test_loss_curve(training: Training, detail: Callable[..., None]) -> None:
    """Training runs, but along another curve than on the CPU: some operator is a little wrong."""
    factor, floor = tolerance("loss_curve"), tolerance("loss_curve_floor")
    exact = training.exact.losses
    ours = (training.device.losses - exact).abs()
    cpu = (training.cpu.losses - exact).abs().cummax(0).values
    bound = (factor.value * cpu).clamp(min=floor.value)
    over = (ours > bound).nonzero().flatten().tolist()
    detail(
        seed=SEED,
        steps=len(exact),
        first_loss=training.device.losses[0].item(),
        last_loss=training.device.losses[-1].item(),
        worst_distance=ours.max().item(),
        worst_distance_of_cpu=cpu.max().item(),
        tolerance=factor._asdict(),
        floor=floor._asdict(),
    )
    assert bool(training.device.losses.isfinite().all())
    assert not over, f"step {over[0]}: {ours[over[0]].item():.3g} > {bound[over[0]].item():.3g}"


@pytest.mark.check("gate2.classifier.accuracy", obligations=["G2", "N1"], kind="workload result")
def test_accuracy(training: Training, detail: Callable[..., None]) -> None:
    """The loss falls, and yet the model that comes out guesses badly."""
    least = tolerance("accuracy")
    detail(
        seed=SEED,
        accuracy=training.device.accuracy,
        accuracy_cpu=training.cpu.accuracy,
        images=360,
        tolerance=least._asdict(),
    )
    assert training.device.accuracy >= least.value


@pytest.mark.check("gate2.classifier.no_fallback", obligations=["G2", "V4"], kind="workload result")
def test_no_fallback(accelerator: str, training: Training, detail: Callable[..., None]) -> None:
    """An operator goes through the host on every step, and no one notices but the clock.

    Three witnesses have to agree: the plugin's count, the runtime's bytes each way, and the
    launches of the device.
    """
    run = training.device
    detail(
        run.account.summary(),
        expected_bytes_to_device=run.bytes_to_device,
        expected_bytes_from_device=run.bytes_from_device,
    )
    assert run.account.ways.get("fallback", {}) == {}
    assert run.account.total("native") > 10 * len(run.losses)
    assert run.account.launches > 10 * len(run.losses)
    moved = (run.account.bytes_to_device, run.account.bytes_from_device)
    expected = (run.bytes_to_device, run.bytes_from_device)
    assert moved == expected, f"bytes to and from the device: expected {expected}, got {moved}"


@pytest.mark.check(
    "gate2.classifier.deterministic", obligations=["G2", "N8"], kind="workload result"
)
def test_deterministic(device: str, training: Training) -> None:
    """Two runs of one seed on one device differ, so that no later comparison means anything."""
    from gate2_eager.classifier import train

    again = train(device, torch.float32)
    assert torch.equal(again.losses, training.device.losses)
