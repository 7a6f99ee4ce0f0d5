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
MOST_BYTES = 1 << 24
"""Of all strings of a file, decompressed: the folder of a build is among the first."""
LEAST_BYTES = 1 << 12
"""That a section counts as, so that empty ones without number have an end."""
LONGEST_NAME = 32
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
    folder, left, seen = "", MOST_BYTES, set[int]()
    for name, flags, offset, size in sections:
        wanted = name.lstrip(b".").removeprefix(b"z") in WITH_STRINGS and offset not in seen
        if folder or not wanted or left <= 0:
            continue
        seen.add(offset)
        packed = name.startswith(b".z") or flags & COMPRESSED
        strings = _unpacked(data, name, offset, size, left) if packed else data
        if strings is None:
            break  # what it took to find out is not known, and the next may be the same
        begin, end = (0, len(strings)) if packed else (offset, offset + min(size, left))
        folder = _folder(strings, begin, end, folders)
        left -= max(end - begin, LEAST_BYTES)
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
        name = texts[at : at + LONGEST_NAME].partition(b"\0")[0]
        if name.startswith((b".debug_", b".zdebug_")) and kind != NO_BITS and size:
            reader.require(offset, size)
            yield name, flags, offset, size


def _unpacked(data: Bytes, name: bytes, offset: int, size: int, most: int) -> bytes | None:
    """The first `most` bytes of a section: none of one packed in another way than zlib's, and None
    where it is damaged."""
    reader = Reader(data)
    if name.startswith(b".z"):  # GNU's own way, of before the flag: "ZLIB" and the size
        head = 12
    else:
        head = 24 if reader.wide else 12
        if size < head or reader.unpack("I", offset)[0] != ZLIB:
            return b""
    if size < head:
        return b""
    try:
        packed = data[offset + head : offset + min(size, head + most)]
        return zlib.decompressobj().decompress(packed, most)
    except zlib.error:
        return None


def _folder(strings: Bytes, begin: int, end: int, folders: tuple[str, ...]) -> str:
    found = _pattern(folders).search(strings, begin, end)
    return found[0].decode("ascii", "backslashreplace") if found else ""


@functools.cache
def _pattern(folders: tuple[str, ...]) -> re.Pattern[bytes]:
    words = b"|".join(re.escape(folder.strip("/").encode()) for folder in folders)
    return re.compile(rb"(?<![\w.$@%~/-])/(?:" + words + rb")/[\w.+@~-][\w./+@~-]{0,1023}(?=\0)")
