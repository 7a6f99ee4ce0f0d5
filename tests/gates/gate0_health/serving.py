"""Device processes of these checks: emud in a configuration of the device, on a node."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

START_SECONDS = 20


class Configuration(NamedTuple):
    """One of those of `--configurations`; as text STEPPING/FIRMWARE/POWER_MODE."""

    stepping: str
    firmware: str
    power_mode: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def options(self) -> list[str]:
        """For emud, which brings its one firmware: which it is, gate0.configuration.runs asks."""
        return ["--stepping", self.stepping, "--power-mode", self.power_mode]


def configurations(text: str) -> list[Configuration]:
    """Raises ValueError for a text that is no list of configurations."""
    found = [tuple(one.split("/")) for one in text.split(",")]
    if any(len(parts) != 3 or not all(parts) for parts in found):
        raise ValueError(
            f"--configurations: expected STEPPING/FIRMWARE/POWER_MODE,... got {text!r}"
        )
    return [Configuration(*parts) for parts in found]


class Node(NamedTuple):
    """A device process of this check's own, on a node in a folder."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def env(self) -> dict[str, str | None]:
        return {"EMU_DEVICE_DIR": str(self.folder)}

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def listens(path: Path) -> bool:
    """A node that is there may be one that an emud left, or that its emud is still making."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


@contextmanager
def served(folder: Path, *options: str, number: int = 0) -> Iterator[Node]:
    """emud on the node of that number in `folder`, until the end of the scope."""
    import emu_driver_shim

    path = folder / f"emu{number}"
    words = [str(emu_driver_shim.emud_path()), "--foreground", "--node", str(path), *options]
    if "--threads" not in options:
        words += ["--threads", "2"]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
        env={"PATH": os.environ.get("PATH", "")},
    )
    node = Node(folder, process)
    try:
        end = time.monotonic() + START_SECONDS
        while not listens(path):
            assert process.poll() is None, f"emud ended with status {process.returncode}"
            assert time.monotonic() < end, f"emud serves no node within {START_SECONDS} s"
            time.sleep(0.01)
        yield node
    finally:
        node.end()
