"""Whether a cell is what its records say ran. Pure: evidence in, disagreements out.

A cell is written by a person. The device says its own stepping and firmware, the machine in
the room its architecture, a room which system, Python and torch it has. Where the two differ, or
where nothing says it, the evidence is not about the cell. A sandbox is of the machine's own
system, which its record names: a cell that ran only there is claimed without images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from qualify.engine import RoomKind
from qualify.evidence import Record
from qualify.matrix import Cell, CellFact, Layer
from qualify.outcome import Outcome
from qualify.room import RoomFacts


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the cell, what it says, and what was found."""

    field: str
    expected: str
    got: str
    layer: Layer
    check: str = ""


def of_checks(cell: Cell, facts: Iterable[CellFact], record: Record) -> Iterator[Disagreement]:
    """Where checks that the record has attempts of found another device than the cell's.

    Every attempt that passed has to say what the cell says, one of it where that is several, and
    each has to be said; of a check that the gate did not plan, or that failed before it said
    anything, nothing is said here: it has a reason of its own.
    """
    planned = {check.id for check in record.predicate.planned}
    for fact in facts:
        said = getattr(cell, fact.field)
        expected = set(said) if isinstance(said, tuple) else {said}
        found = {
            str(attempt.detail.get(fact.detail, "nothing"))
            for attempt in record.predicate.attempts
            if attempt.id == fact.check
            and (fact.detail in attempt.detail or attempt.outcome is Outcome.PASSED)
        }
        if fact.check in planned and found != expected:
            yield Disagreement(
                field=fact.field,
                expected=" and ".join(sorted(expected)) or "none",
                got=" and ".join(sorted(found)) or "nothing",
                layer=fact.layer,
                check=fact.check,
            )


def as_ran(cell: Cell, rooms: Iterable[RoomFacts]) -> Cell:
    """The cell as a verdict may name it: without images where no room was made from one."""
    return cell if _images(rooms) else cell.without_images


def of_rooms(cell: Cell, rooms: Iterable[RoomFacts]) -> Iterator[Disagreement]:
    """Where the rooms have another Python or torch than the cell says, or where those that were
    made from images are not one of each of the cell's images."""
    rooms = list(rooms)
    for field, expected, of_each in (
        ("python", cell.python, {_minor(facts.python) for facts in rooms}),
        ("torch", cell.torch, {facts.torch.partition("+")[0] for facts in rooms}),
    ):
        if of_each - {expected}:
            yield Disagreement(
                field=field,
                expected=expected,
                got=" and ".join(sorted(of_each)),
                layer=Layer.PIPELINE,
            )
    found = _images(rooms)
    if found and found != set(cell.images):
        yield Disagreement(
            field="images",
            expected=" and ".join(sorted(cell.images)),
            got=" and ".join(sorted(found)),
            layer=Layer.PIPELINE,
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _images(rooms: Iterable[RoomFacts]) -> set[str]:
    kinds = (RoomKind.DOCKER, RoomKind.PODMAN)
    return {system(facts) for facts in rooms if facts.kind in kinds}


def system(facts: RoomFacts) -> str:
    """The name of a room's system, as images are called: debian12, debian-forky."""
    between = "" if facts.os_version[:1].isdigit() else "-"
    return f"{facts.os_id}{between}{facts.os_version}"
