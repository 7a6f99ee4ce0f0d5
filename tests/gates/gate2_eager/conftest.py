"""Gate 2 runs in strict mode: an operator that would go to the host is an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gate2_eager.classifier import Training

os.environ["TORCH_EMU_FALLBACK"] = "error"  # the plugin reads it when a check imports torch


@pytest.fixture
def accelerator(device: str) -> str:
    """The device under test, where the check has no meaning on the host."""
    if device == "cpu":
        pytest.skip("cpu has no fallback and no traffic to a device")
    return device


@pytest.fixture(scope="session")
def training(device: str) -> Iterator[Training]:
    """The classifier, trained once on the device and twice on the CPU, in f32 and f64."""
    from gate2_eager.classifier import train_all

    yield train_all(device)
