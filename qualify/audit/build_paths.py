"""Finds paths of source files under folders where builds run."""

from __future__ import annotations

import functools
import itertools
import mmap
import re

import msgspec

LONGEST = 1024
"""Bytes of a path; what is longer is a hostile file's."""
MOST = 100_000
"""Places that are looked at: libtorch_cpu.so, of 434 MB, has 6,200."""


class Paths(msgspec.Struct, frozen=True):
    first: str
    offset: int
    count: int


def find(data: bytes | mmap.mmap, folders: tuple[str, ...]) -> Paths | None:
    near, path = _patterns(folders)
    first: tuple[str, int] | None = None
    count = 0
    for begin in itertools.islice(near.finditer(data), MOST):
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
