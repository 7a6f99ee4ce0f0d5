"""Who made a thing that must not outlive its run: one process of one boot of this machine.

A process number alone is not an identity, because numbers come round again, and because each
container has numbers of its own: several of them may share an engine, or a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec


class Owner(msgspec.Struct, frozen=True):
    """A process: its number, its start (clock ticks since boot), the boot's id, and the namespace
    that the number is of (pid_namespaces(7))."""

    pid: int
    started: int
    boot: str
    namespace: str

    def alive(self) -> bool:
        """Whether it is. One of another namespace cannot be seen, and may be while this boot is."""
        if self.boot != _boot():
            return False
        return self.namespace != _namespace() or self.started == _started(self.pid)

    def text(self) -> str:
        return f"{self.namespace}_{self.pid}.{self.started}.{self.boot}"


def current() -> Owner:
    return of(os.getpid())


def of(pid: int) -> Owner:
    """The process that has the number `pid` now."""
    return Owner(pid, _started(pid), _boot(), _namespace())


def left_behind(text: str) -> bool:
    """Whether `text` (as `Owner.text` wrote it) names an owner that is dead.

    A text that is none says nothing about a process, so nothing is removed for it. One without a
    namespace was written before there was one in it.
    """
    number, _, rest = text.partition(".")
    namespace, _, pid = number.rpartition("_")
    started, _, boot = rest.partition(".")
    if not (pid.isdigit() and started.isdigit() and boot):
        return False
    return not Owner(int(pid), int(started), boot, namespace or _namespace()).alive()


@contextlib.contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Path]:
    """A folder in `parent` that goes with the block; what killed runs left of its kind goes first.

    What cannot be removed stays, and hides no error of the block.
    """
    for left in parent.glob(f"{prefix}*"):
        if left_behind(left.name.removeprefix(prefix).rpartition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    prefix = f"{prefix}{current().text()}-"
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    """The number in "pid:[4026531836]"."""
    return re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))


def _started(pid: int) -> int:
    """Field 22 of /proc/PID/stat (proc(5)); 0 when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])
