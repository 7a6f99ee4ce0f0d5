"""The few facts of an ELF file that these checks judge, read without loading it.

Little-endian 64-bit files, which is what the platform tags of these wheels promise.
"""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import NamedTuple

Data = bytes | mmap.mmap
MAGIC = b"\x7fELF\x02\x01"
DYNAMIC, GNU_STACK, LOAD = 2, 0x6474E551, 1
NEEDED, STRTAB, SONAME, RPATH, RUNPATH = 1, 5, 14, 15, 29
GLIBC = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)")
PYTHON = re.compile(rb"(?<=\0)_?Py(?:[A-Z]\w*)?_\w+(?=\0)")


class Elf(NamedTuple):
    needed: tuple[str, ...]
    search: tuple[str, ...]
    """RPATH and RUNPATH, split at colons."""
    soname: str
    executable_stack: bool
    glibc: tuple[int, int]
    """The newest version of the C library that its symbols need; (0, 0) for none."""
    python_symbols: tuple[str, ...]


def read(path: Path) -> Elf:
    data = path.read_bytes()
    if data[:6] != MAGIC:
        raise ValueError(f"{path}: expected a little-endian 64-bit ELF file")
    stack = [flags for kind, flags, *_ in _segments(data) if kind == GNU_STACK]
    versions = [(int(major), int(minor)) for major, minor in GLIBC.findall(data)]
    return Elf(
        needed=_texts(path, data, NEEDED),
        search=tuple(p for text in _texts(path, data, RPATH, RUNPATH) for p in text.split(":")),
        soname="".join(_texts(path, data, SONAME)),
        executable_stack=not stack or bool(stack[0] & 1),
        glibc=max(versions, default=(0, 0)),
        python_symbols=tuple(sorted({name.decode() for name in PYTHON.findall(data)})),
    )


def soname(path: Path) -> str:
    """The name that it is known by in a process, or "" for none and for what is no library.

    Files of gigabytes are read no further than it takes.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return "".join(_texts(path, data, SONAME))


def _segments(data: Data) -> list[tuple[int, ...]]:
    """Kind, flags, offset, address, address, length, size and alignment of each."""
    start, size, count = struct.unpack_from("<Q14xHH", data, 32)[0:3]
    return [struct.unpack_from("<IIQQQQQQ", data, start + n * size) for n in range(count)]


def _texts(path: Path, data: Data, *tags: int) -> tuple[str, ...]:
    """What entries of the dynamic section with these tags say."""
    segments = _segments(data)

    def place(address: int) -> int:
        for kind, _, offset, vaddr, _, length, _, _ in segments:
            if kind == LOAD and vaddr <= address < vaddr + length:
                return address - vaddr + offset
        raise ValueError(f"{path}: address {address:#x} lies in no segment")

    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == DYNAMIC:
            entries = list(struct.iter_unpack("<qQ", data[offset : offset + length]))
    table = next((place(value) for tag, value in entries if tag == STRTAB), 0)
    found = (table + value for tag, value in entries if tag in tags)
    return tuple(data[at : data.find(b"\0", at)].decode() for at in found)
