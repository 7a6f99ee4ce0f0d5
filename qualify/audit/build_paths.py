"""Finds paths of source files under folders where builds run."""

from __future__ import annotations

import functools
import mmap
import re

import msgspec

LONGEST = 4096
"""PATH_MAX of Linux."""


class Paths(msgspec.Struct, frozen=True):
    first: str
    offset: int
    count: int


def find(data: bytes | mmap.mmap, folders: tuple[str, ...]) -> Paths | None:
    near, path = _patterns(folders)
    first: tuple[str, int] | None = None
    count = 0
    for begin in near.finditer(data):
        if hit := path.match(data, begin.start(), begin.start() + LONGEST):
            count += 1
            first = first or (hit[0].decode("ascii", "backslashreplace"), hit.start())
    return Paths(*first, count) if first else None


@functools.cache
def _patterns(folders: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """One that is quick over many bytes, and one that is exact where the first matched."""
    words = b"|".join(re.escape(folder.strip("/").encode()) for folder in folders)
    near = re.compile(rb"/(?:" + words + rb")/")
    path = re.compile(
        rb"(?<![\w.$@%~/-])/(?:" + words + rb")/[\w.+@~-]+/[\w./+@~-]+"
        rb"\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|rs|f|f90|F|S|s|o|a|py|pyx|go|y|l)(?![\w.])"
    )
    return near, path
