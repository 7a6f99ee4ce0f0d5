"""Questions from evidence alone: the newest inputs about the wheels that are asked for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from samples import CELL, GATES, WHEELS, World, check, events, jsonl, room, spec

from qualify import ask, evidence, index, installs
from qualify.claim import Asked, Question

OLD, NEW, OTHER = "a" * 64, "b" * 64, "c" * 64
NEWER = {name: "9" * 64 for name in WHEELS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Gate 0 on two states of the wheels, then again on the first with other inputs; gate 2."""
    world = World(tmp_path)
    lines = jsonl(events(check("gate0.a.one")))
    world.add(lines, key=OLD)
    world.add(lines, key=OTHER, wheels=NEWER)
    world.add(lines, key=NEW)
    world.add(jsonl(events(check("gate2.a.one"), gate=2)), 2, key=NEW)
    return tmp_path


def question(folder: Path, wheels: dict[str, str] | None) -> Question:
    return ask.from_index(
        index.read(folder),
        evidence.read_all(folder),
        cell=CELL,
        tier=GATES.tier("experimental"),
        wheels=wheels,
    )


def test_the_last_inputs_of_the_wheels_in_question(folder: Path) -> None:
    assert question(folder, WHEELS).asked == (Asked("debian12", 0, NEW),)
    assert question(folder, NEWER).asked == (Asked("debian12", 0, OTHER),)


def test_without_wheels_those_of_the_last_record(folder: Path) -> None:
    made = question(folder, None)
    assert made.wheels == WHEELS
    assert made.asked == (Asked("debian12", 0, NEW),)


def test_of_wheels_without_records_everything_is_asked(folder: Path) -> None:
    """So that the verdict can say what the records are about."""
    assert question(folder, {"x.whl": "0" * 64}).asked == (Asked("debian12", 0, NEW),)


def test_a_record_that_is_gone_is_still_asked_for(folder: Path) -> None:
    newest = index.read(folder).entries[2].record
    (folder / "records" / f"{newest}.json").unlink(missing_ok=True)
    assert question(folder, WHEELS).asked == (Asked("debian12", 0, NEW),)


def test_no_evidence_asks_nothing(tmp_path: Path) -> None:
    made = question(tmp_path, None)
    assert (made.wheels, made.asked) == ({}, ())


@pytest.mark.parametrize("name", ["debian12+root", "debian-forky", "debian12"])
def test_what_the_install_matrix_adds_takes_no_claim_away(tmp_path: Path, name: str) -> None:
    """Its rooms lie in the same evidence: those of the cell are the cell's, and no other is."""
    world = World(tmp_path).fill()
    before = question(tmp_path, WHEELS)
    facts = room("debian12")
    if name != facts.name:
        facts = msgspec.structs.replace(facts, name=name)
    lines = jsonl(events(check("gate7.a.one"), check("gate7.install.offline"), gate=7))
    world.add(lines, 7, facts, cell=installs.cell_of(CELL, spec(facts)))
    after = question(tmp_path, WHEELS)
    assert after == before
    assert world.decide(question=after).claim
