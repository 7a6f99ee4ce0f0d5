"""What all tests share."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# A program that was put into the background with nohup or & ignores these, and hands that on: no
# test could interrupt what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """An empty folder for sockets: their paths end at 107 bytes, however deep the checkout is."""
    with tempfile.TemporaryDirectory(prefix="emu-", dir="/tmp") as folder:
        yield Path(folder)
