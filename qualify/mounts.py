"""Which folders of this machine a mount table makes visible (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

import msgspec

from qualify.errors import RoomError


class Mount(msgspec.Struct, frozen=True):
    """One line: the device, the folder of its file system that is shown, and where."""

    device: str
    root: str
    target: str


def parse(text: str) -> tuple[Mount, ...]:
    """The mounts of a mountinfo file, in its order. RoomError for a line that is none."""
    mounts = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 7 or ":" not in fields[2]:
            raise RoomError("the mount table cannot be read", expected="mountinfo", got=line)
        mounts.append(Mount(fields[2], _unescape(fields[3]), _unescape(fields[4])))
    return tuple(mounts)


def host_location(folder: Path) -> tuple[str, str]:
    """The device ("major:minor") that `folder` lies on, and its path inside that file system."""
    real = str(folder.resolve())
    best = Mount("", "/", "/")
    for mount in parse(Path("/proc/self/mountinfo").read_text()):
        if _within(real, mount.target) and len(mount.target) >= len(best.target):
            best = mount
    if not best.device:
        number = Path(real).stat().st_dev
        best = Mount(f"{os.major(number)}:{os.minor(number)}", "/", "/")
    relative = posixpath.relpath(real, best.target)
    return best.device, posixpath.normpath(posixpath.join(best.root, relative))


def views(mountinfo: str, device: str, inner: str) -> Iterator[str]:
    """Paths at which `inner` of `device` would show in the room whose table is `mountinfo`.

    A later mount may cover such a place: the caller looks whether something is there.
    """
    for mount in parse(mountinfo):
        if mount.device == device and _within(inner, mount.root):
            relative = posixpath.relpath(inner, mount.root)
            yield posixpath.normpath(posixpath.join(mount.target, relative))


def parts(mountinfo: str, device: str, inner: str) -> Iterator[str]:
    """Paths at which something below `inner` of `device` is mounted by itself."""
    for mount in parse(mountinfo):
        if mount.device == device and mount.root != inner and _within(mount.root, inner):
            yield mount.target


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescape(text: str) -> str:
    """Space, tab, newline and backslash are written as three octal digits."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text
