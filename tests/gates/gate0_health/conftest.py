"""Gate 0 speaks to the device through the runtime's Python package; PyTorch is not needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    import emu_runtime

START_SECONDS = 20


class Node(NamedTuple):
    """A device process of this check's own, on a node in a folder of its own."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def env(self) -> dict[str, str | None]:
        return {"EMU_DEVICE_DIR": str(self.folder)}


@pytest.fixture(autouse=True)
def emulated(device: str) -> None:
    if device != "emu":
        pytest.skip(f"{device} has no health suite here: its vendor brings one")


@pytest.fixture(scope="session")
def runtime() -> emu_runtime.Device:
    """Device 0 as a user's process gets it."""
    import emu_runtime

    return emu_runtime.Device(0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A device that several processes share; ended with the check."""
    import emu_driver_shim

    path = tmp_path / "emu0"
    process = subprocess.Popen(
        [str(emu_driver_shim.emud_path()), "--foreground", "--node", str(path), "--threads", "2"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
        env={"PATH": os.environ.get("PATH", "")},
    )
    try:
        end = time.monotonic() + START_SECONDS
        while not path.exists():
            assert process.poll() is None, f"emud ended with status {process.returncode}"
            assert time.monotonic() < end, f"emud made no node within {START_SECONDS} s"
            time.sleep(0.01)
        yield Node(tmp_path, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
