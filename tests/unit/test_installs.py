"""A room of the install matrix is judged from its record alone, whatever the run believed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from samples import CELL, GATES, POLICY, TODAY, WHEELS, World, check, events, jsonl, room

from qualify import installs
from qualify.claim import Verdict
from qualify.engine import Engine, RoomKind
from qualify.gate import Inputs, Suite
from qualify.images import PLAIN
from qualify.room import RoomFacts, RoomSpec
from qualify.show import installed

CHECK = "gate7.install.offline"  # that a tier of the samples names; gate 7 is not built there


def inputs(tmp_path: Path, facts: RoomFacts) -> Inputs:
    spec = RoomSpec(
        engine=Engine(kind=RoomKind.DOCKER), facts=facts, digest="6" * 64, hidden=(), setting=PLAIN
    )
    suite = Suite(root=tmp_path, folder="gate7_release", files=(), sha256="5" * 64)
    closure = installs.Closure(
        folder=tmp_path, python="3.11", sha256="4" * 64, torch="2.13.0", torch_wheel=tmp_path
    )
    wheels = {tmp_path / name: digest for name, digest in WHEELS.items()}
    return installs.inputs(CELL, GATES.gates[7], suite, wheels, closure, spec, None)


def judged(tmp_path: Path, outcome: str = "passed", name: str = "debian12+root") -> Verdict:
    facts = msgspec.structs.replace(room("debian12"), name=name)
    asked = inputs(tmp_path, facts)
    world = World(tmp_path)
    lines = events(check(CHECK, outcome), gate=7, end=0 if outcome == "passed" else 1)
    world.add(jsonl(lines), 7, facts, key=asked.key, cell=asked.cell)
    return installs.judge(tmp_path, POLICY, GATES, asked, (), (), TODAY)


def test_a_room_in_which_all_checks_pass(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.claim, verdict.reasons
    assert [(row.room, row.planned, row.passed) for row in verdict.rows if row.room] == [
        ("debian12+root", 1, 1)
    ]
    assert verdict.cell.images == ("debian12",), "the system of the room, whatever its setting"


def test_a_system_in_the_making_has_a_name_too(tmp_path: Path) -> None:
    facts = msgspec.structs.replace(room("debian-forky"), os_version="forky")
    assert inputs(tmp_path, facts).cell.images == ("debian-forky",)


@pytest.mark.parametrize("outcome", ["failed", "skipped", "error"])
def test_a_check_that_does_not_pass_refuses_its_room(tmp_path: Path, outcome: str) -> None:
    verdict = judged(tmp_path, outcome)
    assert not verdict.claim
    assert [reason.check for reason in verdict.reasons] == [CHECK]


def test_no_record_is_a_refusal(tmp_path: Path) -> None:
    World(tmp_path).fill()
    asked = inputs(tmp_path, msgspec.structs.replace(room(), name="debian12+root"))
    verdict = installs.judge(tmp_path, POLICY, GATES, asked, (), (), TODAY)
    assert not verdict.claim and verdict.reasons


def test_the_report_is_complete_only_if_every_room_is(tmp_path: Path) -> None:
    rooms = []
    for name, outcome in (("debian12+root", "passed"), ("debian12+nameless", "failed")):
        rooms.append(
            installs.Installed(
                python="3.11",
                room=name,
                verdict=judged(tmp_path / name, outcome, name),
                seconds=1.5,
                reused=outcome == "passed",
            )
        )
    assert installs.Report(installed=(rooms[0],)).complete
    assert not installs.Report(installed=tuple(rooms)).complete
    assert not installs.Report(installed=()).complete
    console = Console(file=StringIO(), width=200)
    console.print(installed(installs.Report(installed=tuple(rooms))))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "1.5 reused" in text and "1 of 2 rooms" in text
    assert f"Python 3.11 in debian12+nameless: {CHECK}: failed" in text
