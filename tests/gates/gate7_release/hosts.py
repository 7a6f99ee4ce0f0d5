"""A host's device beside the driver shims of a container, by emud of the host's own release.

The pipeline hands in nodes of devices that run in containers of their own, where the room has
such. Else the device is a process here, and the two meet in one container.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 20
HERE = "a process in this container"
ELSEWHERE = "a process in another container"
CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""


@contextmanager
def device_of(
    release: str, nodes: Path | None, driver: Path, scratch: Path
) -> Iterator[tuple[Path, str]]:
    """The folder of a node of that release's device, and where its process is.

    It is one of the `nodes` that were handed in, or else by emud of the unpacked `driver`.
    """
    if nodes is None:
        with served(driver, scratch / "dev") as node:
            yield node.parent, located(node, HERE)
    else:
        found = sorted((nodes / release).glob("emu*"))
        assert len(found) == 1, f"expected one node in {nodes / release}, got {found}"
        yield found[0].parent, located(found[0], ELSEWHERE)


def located(node: Path, expected: str) -> str:
    """Where the process is that serves a node; that is `expected`."""
    pid = server(node)
    assert pid is not None, f"nothing listens on {node}"
    found = ELSEWHERE if pid == 0 else HERE
    assert found == expected, f"{node} is served by {found}, not by {expected}"
    return found


@contextmanager
def served(driver: Path, folder: Path) -> Iterator[Path]:
    """A node in `folder` of a device process of that driver's own."""
    folder.mkdir()
    node = folder / "emu0"
    emud = driver / "emu_driver_shim" / "bin" / "emud"
    words = [str(emud), "--foreground", "--node", str(node)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while server(node) is None:
                assert process.poll() is None, f"emud ended with status {process.returncode}"
                assert time.monotonic() < end, f"emud serves no node within {START_SECONDS} s"
                time.sleep(0.01)
            yield node
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def server(node: Path) -> int | None:
    """The process that serves a node; 0 for one that this container cannot see, None for none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(node))
        except OSError:
            return None
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid: int = CREDENTIALS.unpack(credentials)[0]
    return pid
