"""Defects that other tools look for and `qualify audit` does not: rows of the comparison alone."""

from __future__ import annotations

from broken_wheels.binaries import GOOD, of
from broken_wheels.compiler import ADD, library
from broken_wheels.defect import Defect, changed
from broken_wheels.good import Wheel
from broken_wheels.texts import added

BROKEN = "Title\n===\n\n.. no-such-directive::\n\n`unbalanced\n"
WHOLE = "Title\n=====\n\nA description.\n"


def in_rst(text: str) -> Wheel:
    wheel = added("small/more.py")()
    wheel.swap("METADATA", "text/plain\n\nA description.\n", f"text/x-rst\n\n{text}")
    return wheel


def emptied(wheel: Wheel) -> None:
    for name in ("small/__init__.py", "small/data.txt"):
        del wheel.entries[name]
    wheel.set("entry_points.txt", "")


LONG = "small/" + "/".join(["a-folder-with-a-long-name"] * 9) + "/a.txt"

DEFECTS = [
    Defect("description-not-shown", lambda: in_rst(BROKEN), lambda: in_rst(WHOLE)),
    Defect("no-module", changed(emptied)),
    Defect("path-long", added(LONG), added("small/a.txt")),
    Defect("path-with-space", added("small/a file.txt"), added("small/a-file.txt")),
    Defect("symbols-not-stripped", of(lambda: library(ADD, "-g")), GOOD),
]
