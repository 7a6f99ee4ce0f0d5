"""A cell that is not what ran is refused: each field, with its layer, both values and its check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import CELL, DETAIL, GATES, World, check, events, jsonl, make_record, room

from qualify.agreement import of_checks, of_rooms
from qualify.claim import Reason, Verdict
from qualify.engine import RoomKind
from qualify.matrix import Layer

FIELDS = [(fact.field, fact.detail, fact.layer) for fact in GATES.cell_facts]
field = pytest.mark.parametrize(("field", "detail", "layer"), FIELDS)


def of_cell(field: str) -> str:
    """What the cell says, where that is one value."""
    said = getattr(CELL, field)
    (value,) = said if isinstance(said, tuple) else (said,)
    return str(value)


def the_reason(verdict: Verdict) -> Reason:
    """The one thing that two rooms have against the claim."""
    assert not verdict.claim
    assert (
        len({msgspec.structs.replace(reason, room="", mend="") for reason in verdict.reasons}) == 1
    )
    return verdict.reasons[0]


@field
@pytest.mark.parametrize("ran", ["other", None])
def test_what_a_check_found_is_not_what_the_cell_says(
    tmp_path: Path, field: str, detail: str, layer: Layer, ran: str | None
) -> None:
    said = {**DETAIL, detail: ran}
    if ran is None:
        del said[detail]
    lines = events(check("gate0.a.one", detail=said))
    reason = the_reason(World(tmp_path).fill(gate0=lines).decide())
    expected = f"expected {of_cell(field)}, got {ran or 'nothing'}"
    assert reason.what == f"the cell is not what ran: {field}: {expected}"
    assert (reason.layer, reason.gate, reason.check) == (layer, 0, "gate0.a.one")


@given(st.data())
def test_no_value_but_the_cells_own_agrees(data: st.DataObject) -> None:
    fact = data.draw(st.sampled_from(GATES.cell_facts))
    expected = of_cell(fact.field)
    values = st.one_of(st.text(), st.integers(), st.none(), st.just(expected))
    first, second = data.draw(values), data.draw(values)
    cases = [{**DETAIL, fact.detail: value} for value in (first, second)]
    lines = events(check("gate0.a.one", cases=("x", "y")))
    attempts = [line for line in lines if line["event"] == "check"]
    for line, detail in zip(attempts, cases, strict=True):
        line["detail"] = detail
    found = list(of_checks(CELL, GATES.cell_facts, make_record(jsonl(lines))))
    assert bool(found) == ((first, second) != (expected, expected))


@pytest.mark.parametrize(
    "ran",
    [
        ("A0/1.0.0/nominal",),
        ("A0/1.0.0/nominal", "A1/1.0.0/eco", "A1/1.0.0/boost"),
        ("A0/1.0.0/nominal", "A1/1.0.0/nominal"),
    ],
)
def test_the_configurations_are_those_that_ran(tmp_path: Path, ran: tuple[str, ...]) -> None:
    """All of the cell's, and no other; the one that failed is none that is left out."""
    cell = msgspec.structs.replace(CELL, configurations=("A1/1.0.0/eco", "A0/1.0.0/nominal"))
    (fact,) = (fact for fact in GATES.cell_facts if fact.field == "configurations")

    def found(configurations: tuple[str, ...], outcome: str = "passed") -> list[Any]:
        lines = events(check("gate0.a.one", outcome, cases=configurations, detail=DETAIL))
        for line in lines:
            if line["event"] == "check":
                line["detail"] = {**DETAIL, "configuration": line["case"]}
        return list(of_checks(cell, [fact], make_record(jsonl(lines))))

    assert found(cell.configurations) == []
    assert found(cell.configurations, "failed") == []
    (one,) = found(ran)
    assert one.expected == "A0/1.0.0/nominal and A1/1.0.0/eco"
    assert one.got == " and ".join(sorted(ran))


def test_a_failed_check_is_not_blamed_twice(tmp_path: Path) -> None:
    lines = events(check("gate0.a.one", "failed", detail={}), end=1)
    assert the_reason(World(tmp_path).fill(gate0=lines).decide()).what == "failed: why"


def test_an_attempt_that_passed_and_said_nothing_is_no_agreement() -> None:
    lines = events(check("gate0.a.one", cases=("x", "y"), detail=DETAIL))
    next(line for line in reversed(lines) if line["event"] == "check")["detail"] = {}
    found = list(of_checks(CELL, GATES.cell_facts[:1], make_record(jsonl(lines))))
    assert [one.got for one in found] == [f"{CELL.stepping} and nothing"]


@pytest.mark.parametrize("kind", [RoomKind.SANDBOX, RoomKind.DOCKER])
def test_a_verdict_names_no_image_that_never_ran(tmp_path: Path, kind: RoomKind) -> None:
    verdict = World(tmp_path).fill(kind=kind).decide()
    assert verdict.claim == (kind is RoomKind.DOCKER) or not verdict.reasons
    assert verdict.cell.images == (CELL.images if kind is RoomKind.DOCKER else ())


@pytest.mark.parametrize(
    ("images", "kind", "agree"),
    [
        (("debian12", "debian13"), RoomKind.DOCKER, True),
        (("debian13", "debian12"), RoomKind.PODMAN, True),
        (("debian12", "ubuntu24.04"), RoomKind.DOCKER, False),
        (("debian12",), RoomKind.DOCKER, False),
        (("debian12", "debian13", "ubuntu24.04"), RoomKind.DOCKER, False),
        (("ubuntu24.04",), RoomKind.SANDBOX, True),
    ],
)
def test_the_images_are_those_of_the_rooms(
    tmp_path: Path, images: tuple[str, ...], kind: RoomKind, agree: bool
) -> None:
    cell = msgspec.structs.replace(CELL, images=images)
    rooms = {name: room(name, kind) for name in ("debian12", "debian13")}
    assert (list(of_rooms(cell, rooms.values())) == []) == agree
    if not agree:
        world = World(tmp_path, cell=cell).fill(kind=kind)
        reason = the_reason(world.decide())
        assert reason.layer is Layer.PIPELINE
        expected = " and ".join(sorted(images))
        assert f"images: expected {expected}, got debian12 and debian13" in reason.what


@pytest.mark.parametrize(
    ("field", "inside", "got"),
    [
        ("python", {"python": "3.12.1"}, "3.12"),
        ("python", {"python": "3.1.1"}, "3.1"),
        ("torch", {"torch": "2.12.0+cpu"}, "2.12.0"),
    ],
)
def test_the_rooms_have_the_cells_python_and_torch(
    tmp_path: Path, field: str, inside: dict[str, str], got: str
) -> None:
    rooms = [room(), msgspec.structs.replace(room("debian13", os="13"), **inside)]
    assert list(of_rooms(CELL, [*rooms[:1], room("debian13")])) == []
    (found,) = of_rooms(CELL, rooms)
    assert (found.field, found.layer) == (field, Layer.PIPELINE)
    assert found.got == " and ".join(sorted({getattr(CELL, field), got}))
    world = World(tmp_path)
    for where in rooms:
        for gate in (0, 1, 7):
            usual = [check(f"gate{gate}.a.one"), *[check("gate7.install.offline")] * (gate == 7)]
            world.add(jsonl(events(*usual, gate=gate)), gate, where)
    assert f"{field}: expected" in the_reason(world.decide()).what


@pytest.mark.parametrize("changed", [{"image": "sha256:" + "9" * 64}, {"os_version": "13"}])
def test_all_gates_of_a_room_ran_in_the_same_one(tmp_path: Path, changed: dict[str, Any]) -> None:
    world = World(tmp_path).fill()
    lines = jsonl(events(check("gate1.a.one"), gate=1))
    world.asked = [asked for asked in world.asked if (asked.room, asked.gate) != ("debian12", 1)]
    world.add(lines, 1, msgspec.structs.replace(room(), **changed), key="9" * 64)
    reason = the_reason(world.decide())
    assert reason.what.startswith("the gate ran in another room")
    assert (reason.layer, reason.gate, reason.room) == (Layer.EVIDENCE, 1, "debian12")
