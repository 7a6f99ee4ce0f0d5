"""Measures our audit and other tools on the corpus, and writes docs/audit-comparison.md.

`nox -s compare-audits`. Each tool sees the broken wheel and its twin; what it says of both is
compared. A defect is *caught* where a tool says of the broken wheel what it does not say of the
twin: a problem by a code of its own, or a status that is not 0. Anything said of the twin is a
*false alarm*. Our own audit has to name the defect by its id.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from broken_wheels import archives, beyond, corpus
from broken_wheels.compare_page import NOT_LOOKED_AT, OURS, Cell, Row, page
from broken_wheels.defect import TREE, Defect
from broken_wheels.good import Wheel
from broken_wheels.tools import TOOLS, Problems, Tool

PAGE = TREE / "docs" / "audit-comparison.md"
WORKERS = 2


class Measure:
    """Remembers what a tool said of bytes under a name: many twins are one file."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._said: dict[tuple[str, str, str], Problems] = {}

    def row(self, group: str, defect: Defect) -> Row:
        bad = self._write(defect.bad, defect)
        good = self._write(defect.good, defect)
        cells = {OURS: own(defect, bad, good)}
        for tool in TOOLS:
            cells[tool.name] = compared(self._look(tool, bad), self._look(tool, good))
        return Row(defect.name, group, cells)

    def _write(self, make: Callable[[], Wheel], defect: Defect) -> Path:
        place = Path(tempfile.mkdtemp(dir=self._scratch))
        return corpus.written(make(), place)

    def _look(self, tool: Tool, wheel: Path) -> Problems:
        key = tool.name, wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()
        if key not in self._said:
            place = Path(tempfile.mkdtemp(dir=self._scratch))
            try:
                self._said[key] = tool.look(wheel, place)
            finally:
                shutil.rmtree(place)
                shutil.rmtree(Path(archives.OUTSIDE).parent, ignore_errors=True)
        return self._said[key]


def own(defect: Defect, bad: Path, good: Path) -> Cell:
    said = {finding.id for finding in corpus.audited(defect, bad)}
    alarm = bool(corpus.audited(defect, good))
    return Cell("caught" if defect.id in said else "passed", alarm)


def compared(bad: Problems, good: Problems) -> Cell:
    if bad is None or good is None:
        return Cell(NOT_LOOKED_AT, bool(good))
    return Cell("caught" if bad - good else "passed", bool(good))


def rows() -> Iterator[Row]:
    """In the order of the corpus; progress goes to standard error."""
    listed = [(group, defect) for group, defects in corpus.GROUPS.items() for defect in defects]
    listed += [("beyond", defect) for defect in beyond.DEFECTS]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(WORKERS) as pool:
        measure = Measure(Path(scratch))
        for number, row in enumerate(pool.map(lambda each: measure.row(*each), listed), 1):
            print(f"{number} of {len(listed)}: {row.name}", file=sys.stderr, flush=True)
            yield row


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--page", type=Path, default=PAGE, help="the file to write")
    words.add_argument("--json", action="store_true", help="print the cells as JSON too")
    chosen = words.parse_args()
    done = list(rows())
    chosen.page.write_text(page(done), encoding="utf-8")
    if chosen.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(done)).decode() + "\n")


if __name__ == "__main__":
    main()
