"""Finds paths of source files under folders where builds run, while bytes pass by."""

from __future__ import annotations

import re

from qualify.audit.archive import Sink


class Paths:
    """A sink in front of another. `found` is the first path and its offset, `count` how many."""

    OVERLAP = 512

    def __init__(self, prefixes: tuple[str, ...], sink: Sink) -> None:
        words = b"|".join(re.escape(prefix.strip("/").encode()) for prefix in prefixes)
        self._near = re.compile(rb"/(?:" + words + rb")/")
        self._path = re.compile(
            rb"(?<![\w.$@%~/-])/(?:" + words + rb")/[\w.+@~-]+/[\w./+@~-]{1,300}"
            rb"\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|rs|f|f90|F|S|s|o|a|py|pyx|go|y|l)(?![\w.])"
        )
        self._sink = sink
        self._tail = b""
        self._at = 0
        self.found: tuple[int, str] | None = None
        self.count = 0

    def write(self, data: bytes) -> None:
        self._sink.write(data)
        window = self._tail + data
        for near in self._near.finditer(window):
            hit = self._path.match(window, near.start())
            if hit and hit.end() > len(self._tail):
                self.count += 1
                if self.found is None:
                    place = self._at - len(self._tail) + hit.start()
                    self.found = (place, hit[0].decode("ascii", "backslashreplace"))
        self._at += len(data)
        self._tail = window[-self.OVERLAP :]
