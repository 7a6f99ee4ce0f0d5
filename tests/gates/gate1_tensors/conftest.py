"""Gate 1 runs in strict mode: an operator that would go to the host is an error."""

from __future__ import annotations

import os

import pytest

os.environ["TORCH_EMU_FALLBACK"] = "error"  # the plugin reads it when a check imports torch


@pytest.fixture
def accelerator(device: str) -> str:
    """The device under test, where the check has no meaning on the host."""
    if device == "cpu":
        pytest.skip("cpu has no device memory, streams or device process")
    return device


@pytest.fixture(autouse=True)
def seeded() -> None:
    import torch

    torch.manual_seed(20261129)
