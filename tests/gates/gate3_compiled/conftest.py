"""Gate 3 runs in strict mode: an operator that would go to the host is an error."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ["TORCH_EMU_FALLBACK"] = "error"  # the plugin reads it when a check imports torch


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What one check captured is of no use to the next."""
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
