"""What all tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """An empty folder for sockets: their paths end at 107 bytes, however deep the checkout is."""
    with tempfile.TemporaryDirectory(prefix="emu-", dir="/tmp") as folder:
        yield Path(folder)
