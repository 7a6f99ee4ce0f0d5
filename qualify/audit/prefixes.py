"""Which paths lie in a folder, without a string for every folder of every path: a name of 4 KB may
have 2000 of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class Paths:
    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(set(paths))

    def first_in(self, folder: str) -> str | None:
        """The first path below `folder`, in the order of their names."""
        start = f"{folder}/"
        at = bisect_left(self._paths, start)
        if at < len(self._paths) and self._paths[at].startswith(start):
            return self._paths[at]
        return None
