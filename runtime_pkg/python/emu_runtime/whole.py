"""Whether the file of a library or program is all there, and for this machine.

A library that a full disk cut short is mapped as if it were whole, and its process ends in SIGBUS
where the missing part is touched; one of another machine is "not found" to the loader. So the file
is looked at before anything is loaded.
"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

_IDENT = b"\x7fELF\x02\x01"  # 64-bit, little-endian
_HEADER_BYTES = 64
_LOAD = 1
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def defect(path: Path) -> str:
    """What is wrong with the file, or ""; "" too for what is no such file."""
    if missing := shortfall(path):
        return f"{path} is cut short: {missing} bytes of it are missing"
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_IDENT):
        return ""
    (number,) = struct.unpack_from("<H", header, 18)
    machine = _MACHINES.get(number, f"machine {number}")
    here = platform.machine()
    return "" if machine == here else f"{path} is for {machine}, and this machine is {here}"


def shortfall(path: Path) -> int:
    """How many bytes the file lacks of its loaded segments; 0 for a whole one.

    0 too for what is no library: the loader refuses that with a message of its own.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.startswith(_IDENT):
            return 0
        (start,) = struct.unpack_from("<Q", header, 32)
        entry, count = struct.unpack_from("<HH", header, 54)
        file.seek(start)
        table = file.read(entry * count)
    if len(table) < entry * count:
        return int(start + entry * count - size)
    end = 0
    for at in range(0, entry * count, entry):
        kind, offset, length = struct.unpack_from("<I4xQ16xQ", table, at)
        if kind == _LOAD:
            end = max(end, offset + length)
    return max(0, end - size)
