"""Gate 7 looks at what is installed. It has no meaning for a backend that is part of torch."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def plugin_device(device: str) -> str:
    if device != "emu":
        pytest.skip(f"{device} is not installed by the wheels under test")
    return device
