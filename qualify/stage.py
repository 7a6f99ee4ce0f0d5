"""Stages whose output is found by the digest of their inputs.

A stage is a name, a mapping of named inputs (strings: digests, versions, flags)
and a function that fills an empty folder. Its output lies in
`<cache>/stages/<name>/<key>/`, where key is the sha256 over the inputs. Work is
done in a temporary sibling and renamed when complete, so a folder under its key
is whole by construction. A lock per key keeps two runs from doing it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

Progress = Callable[[str], None]
"""Called with one plain line about what is going on now; never with secrets."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The output of one stage. `seconds` is what this call took; `reused` if nothing ran."""

    name: str
    key: str
    path: Path
    seconds: float
    reused: bool


class Stages:
    """The cache of stage outputs under one folder.

    `bound` bytes are kept at most (least recently used goes first); a stage
    does not start when less than `keep_free` bytes of the disk are free and
    cleaning does not help (HostError). Every finished stage is appended to
    `timings`.
    """

    timings: list[Output]

    def __init__(
        self,
        root: Path,
        *,
        bound: int = 30 * 10**9,
        keep_free: int = 20 * 10**9,
        progress: Progress = lambda line: None,
    ) -> None: ...

    def make(self, name: str, inputs: Mapping[str, str], work: Callable[[Path], None]) -> Output:
        """The output of stage `name` for `inputs`; runs `work(empty_folder)` if it is not there."""
        raise NotImplementedError


def cache_root(tree: Path) -> Path:
    """`$QUALIFY_CACHE`, or `.cache` in the checkout."""
    raise NotImplementedError
