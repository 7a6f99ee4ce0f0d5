"""docs/audit-comparison.md says of our own audit what the corpus shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from broken_wheels import beyond, corpus
from broken_wheels.compare import PAGE, compared, own
from broken_wheels.compare_page import NOT_LOOKED_AT, OURS, Cell, Row, page, read
from broken_wheels.defect import Defect
from broken_wheels.tools import REFUSED, TOOLS, Problems

ALL = [*corpus.DEFECTS, *beyond.DEFECTS]
TEXT = PAGE.read_text(encoding="utf-8")


def test_each_defect_has_its_row() -> None:
    cells, _ = read(TEXT, OURS)
    assert list(cells) == [defect.name for defect in ALL]


@pytest.mark.parametrize("defect", ALL, ids=lambda defect: defect.name)
def test_own_cells(defect: Defect, tmp_path: Path) -> None:
    places = [tmp_path / "bad", tmp_path / "good"]
    for place in places:
        place.mkdir()
    bad, good = (
        corpus.written(make(), place)
        for make, place in zip((defect.bad, defect.good), places, strict=True)
    )
    cells, _ = read(TEXT, OURS)
    measured = own(defect, bad, good)
    assert not measured.alarm
    assert cells[defect.name] == measured.word


@pytest.mark.parametrize("column", [OURS, *(tool.name for tool in TOOLS)])
def test_counts_are_those_of_the_rows(column: str) -> None:
    cells, counts = read(TEXT, column)
    caught = Counter(
        group
        for group, defects in corpus.GROUPS.items()
        for defect in defects
        if cells[defect.name].startswith("caught")
    )
    assert counts["caught, of all"] == f"{sum(caught.values())} of {len(corpus.DEFECTS)}"
    for group, defects in corpus.GROUPS.items():
        assert counts[f"caught, {group}"] == f"{caught[group]} of {len(defects)}"


def test_versions_are_the_pinned_ones() -> None:
    pinned = Path(__file__).with_name("tools.txt").read_text().splitlines()[1:]
    versions = dict(line.split("==") for line in pinned)
    assert set(versions) == {tool.name for tool in TOOLS}
    for name, version in versions.items():
        assert f"| {name} | {version} |" in TEXT


@pytest.mark.parametrize(
    ("bad", "good", "cell"),
    [
        (REFUSED, frozenset[str](), Cell("caught", False)),
        (frozenset[str](), frozenset[str](), Cell("passed", False)),
        (REFUSED, REFUSED, Cell("passed", True)),
        (frozenset({"W1", "W2"}), frozenset({"W1"}), Cell("caught", True)),
        (None, None, Cell(NOT_LOOKED_AT, False)),
    ],
)
def test_what_counts_as_caught(bad: Problems, good: Problems, cell: Cell) -> None:
    assert compared(bad, good) == cell


def test_a_page_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1")
    names = [OURS, *(tool.name for tool in TOOLS)]
    good = {name: Cell("caught", False) for name in names}
    rows = [
        Row("zip-crc", "archive", good),
        Row("zip-cut", "archive", {**good, OURS: Cell("passed", True)}),
        Row("no-module", "beyond", {**good, "pip": Cell("passed", False)}),
    ]
    text = page(rows)
    cells, counts = read(text, OURS)
    assert cells == {"zip-crc": "caught", "zip-cut": "passed (!)", "no-module": "caught"}
    assert counts["caught, of all"] == counts["caught, archive"] == "1 of 2"
    assert counts["false alarms, of the twins it looks at"] == "1 of 2"
    assert read(text, "pip")[0]["no-module"] == "-"
