"""Debug information that was left in, and the build's folders that its strings name.

It lies in sections, which no loader reads: section headers that are damaged or stripped mean that
there is none.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterator

import msgspec

from qualify.audit.elf import Bytes, Damaged, Reader

COMPRESSED = 0x800
ZLIB = 1
NO_BITS = 8
MOST_BYTES = 1 << 28
"""Of one section's strings, decompressed."""
WITH_STRINGS = (b"debug_str", b"debug_line_str", b"debug_line", b"debug_info")
"""DWARF 5 has the folder of a unit in one of the first two; older ones in any of the four."""


class DebugInformation(msgspec.Struct, frozen=True):
    offset: int
    bytes: int
    """In the file: what the wheel would lose."""
    folder: str
    """The first that lies where builds run; empty where there is none."""


def read(data: Bytes, folders: tuple[str, ...]) -> DebugInformation | None:
    try:
        sections = list(_sections(Reader(data)))
    except Damaged:
        return None
    if not any(name.endswith(b"debug_info") for name, *_ in sections):
        return None  # assemblers leave tables of places alone
    folder = ""
    for name, flags, offset, size in sections:
        if not folder and name.lstrip(b".").removeprefix(b"z") in WITH_STRINGS:
            folder = _folder(_unpacked(data, name, flags, offset, size), folders)
    total = sum(size for *_, size in sections)
    return DebugInformation(sections[0][2], total, folder)


Section = tuple[bytes, int, int, int]
"""Name, flags, offset and size of one with debug information."""


def _sections(reader: Reader) -> Iterator[Section]:
    (table,) = reader.unpack("Q", 40) if reader.wide else reader.unpack("I", 32)
    entry_size, count, names = reader.unpack("HHH", 58 if reader.wide else 46)
    form = "IIQQQQ" if reader.wide else "6I"
    if not table or names >= count:
        return
    *_, begin, length = reader.unpack(form, table + names * entry_size)
    texts = reader.slice(begin, length)
    for number in range(count):
        at, kind, flags, _, offset, size = reader.unpack(form, table + number * entry_size)
        name = texts[at : texts.find(b"\0", at)]
        if name.startswith((b".debug_", b".zdebug_")) and kind != NO_BITS and size:
            reader.require(offset, size)
            yield name, flags, offset, size


def _unpacked(data: Bytes, name: bytes, flags: int, offset: int, size: int) -> bytes:
    """A section's bytes, the first `MOST_BYTES`; none of one packed in another way than zlib's."""
    reader = Reader(data)
    if name.startswith(b".z"):  # GNU's own way, of before the flag: "ZLIB" and the size
        offset, size = offset + 12, size - 12
    elif flags & COMPRESSED:
        head = 24 if reader.wide else 12
        if size < head or reader.unpack("I", offset)[0] != ZLIB:
            return b""
        offset, size = offset + head, size - head
    else:
        return data[offset : offset + min(size, MOST_BYTES)]
    try:
        return zlib.decompressobj().decompress(data[offset : offset + max(size, 0)], MOST_BYTES)
    except zlib.error:
        return b""


def _folder(strings: bytes, folders: tuple[str, ...]) -> str:
    found = _pattern(folders).search(strings)
    return found[0].decode("ascii", "backslashreplace") if found else ""


@functools.cache
def _pattern(folders: tuple[str, ...]) -> re.Pattern[bytes]:
    words = b"|".join(re.escape(folder.strip("/").encode()) for folder in folders)
    return re.compile(rb"(?<![\w.$@%~/-])/(?:" + words + rb")/[\w.+@~-][\w./+@~-]{0,1023}(?=\0)")
