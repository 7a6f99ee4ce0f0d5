"""The few facts of an ELF file that these checks judge, read without loading it.

Little-endian 64-bit files, which is what the platform tags of these wheels promise.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

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
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path}: expected a little-endian 64-bit ELF file")
    start, size, count = struct.unpack_from("<Q14xHH", data, 32)[0:3]
    segments = [struct.unpack_from("<IIQQQQQQ", data, start + n * size) for n in range(count)]
    loads = [
        (vaddr, offset, length)
        for kind, _, offset, vaddr, _, length, _, _ in segments
        if kind == LOAD
    ]
    stack = [flags for kind, flags, *_ in segments if kind == GNU_STACK]

    def place(address: int) -> int:
        for vaddr, offset, length in loads:
            if vaddr <= address < vaddr + length:
                return int(address - vaddr + offset)
        raise ValueError(f"{path}: address {address:#x} lies in no segment")

    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == DYNAMIC:
            entries = list(struct.iter_unpack("<qQ", data[offset : offset + length]))
    table = next((place(value) for tag, value in entries if tag == STRTAB), 0)

    def texts(*tags: int) -> tuple[str, ...]:
        found = (table + value for tag, value in entries if tag in tags)
        return tuple(data[at : data.index(b"\0", at)].decode() for at in found)

    versions = [(int(major), int(minor)) for major, minor in GLIBC.findall(data)]
    return Elf(
        needed=texts(NEEDED),
        search=tuple(part for text in texts(RPATH, RUNPATH) for part in text.split(":")),
        soname="".join(texts(SONAME)),
        executable_stack=not stack or bool(stack[0] & 1),
        glibc=max(versions, default=(0, 0)),
        python_symbols=tuple(sorted({name.decode() for name in PYTHON.findall(data)})),
    )
