"""A room of the install matrix is judged from its record alone, whatever the run believed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from samples import CELL, GATES, World, check, events, jsonl, room

from qualify import installs
from qualify.build import Wheel
from qualify.claim import Asked, Verdict
from qualify.engine import Engine, RoomKind
from qualify.evidence import Digest, Neighbour
from qualify.gate import Releases
from qualify.matrix import Cell
from qualify.room import RoomFacts, RoomSpec
from qualify.show import installed

CHECK = "gate7.install.offline"  # that a tier of the samples names; gate 7 is not built there


def judged(tmp_path: Path, outcome: str = "passed", name: str = "debian12+root") -> Verdict:
    facts = msgspec.structs.replace(room("debian12"), name=name)
    world = World(tmp_path, cell=cell_in(facts))
    lines = events(check(CHECK, outcome), gate=7, end=0 if outcome == "passed" else 1)
    world.add(jsonl(lines), 7, facts, cell=cell_in(facts))
    return asked_of(world)


def cell_in(facts: RoomFacts) -> Cell:
    engine = Engine(kind=RoomKind.DOCKER)
    return installs.cell_of(CELL, RoomSpec(engine=engine, facts=facts, digest="6" * 64, hidden=()))


def asked_of(world: World) -> Verdict:
    tier = installs.tier(GATES)
    return world.decide(tier.name, gates=msgspec.structs.replace(GATES, tiers=(tier,)))


def test_a_room_in_which_all_checks_pass(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.claim, verdict.reasons
    assert [(row.room, row.planned, row.passed) for row in verdict.rows if row.room] == [
        ("debian12+root", 1, 1)
    ]
    assert verdict.cell.images == ("debian12",), "the system of the room, whatever its setting"


def test_a_system_in_the_making_has_a_name_too() -> None:
    facts = msgspec.structs.replace(room("debian-forky"), os_version="forky")
    assert cell_in(facts).images == ("debian-forky",)


@pytest.mark.parametrize("outcome", ["failed", "skipped", "error"])
def test_a_check_that_does_not_pass_refuses_its_room(tmp_path: Path, outcome: str) -> None:
    verdict = judged(tmp_path, outcome)
    assert not verdict.claim
    assert [reason.check for reason in verdict.reasons] == [CHECK]


def test_no_record_is_a_refusal(tmp_path: Path) -> None:
    facts = msgspec.structs.replace(room(), name="debian12+root")
    world = World(tmp_path, cell=cell_in(facts)).fill()
    world.asked = [Asked(facts.name, 7, "7" * 64)]
    verdict = asked_of(world)
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


def test_each_release_has_its_own_driver_for_its_device() -> None:
    names = ("emu_driver_shim-{}-py3-none-x.whl", "emu_runtime-{}-py3-none-x.whl")
    wheels, neighbours = {}, []
    for number, (release, version) in enumerate((("before", "0.0.9"), ("after", "0.2.0"))):
        wheels[release] = tuple(Path(release, name.format(version)) for name in reversed(names))
        for name in names:
            digest = Digest(sha256=str(number) * 64)
            neighbours.append(
                Neighbour(release=release, name=name.format(version), digest=digest, made="moved")
            )
    releases = Releases(
        wheels=wheels,
        neighbours=tuple(neighbours),
        companions={},
        compat=Path("compat.toml"),
        compat_sha256="",
    )
    here = [
        Wheel(path=Path(name), sha256="7" * 64, name=name, version="0.1.0")
        for name in ("emu-driver-shim", "emu-runtime")
    ]
    devices = installs.devices_of(tuple(here), releases)
    assert [(d.release, str(d.driver), d.sha256[0], d.folders[-1]) for d in devices] == [
        ("here", "emu-driver-shim", "7", "/dev/emu-releases/here"),
        (
            "before",
            "before/emu_driver_shim-0.0.9-py3-none-x.whl",
            "0",
            "/dev/emu-releases/before",
        ),
        ("after", "after/emu_driver_shim-0.2.0-py3-none-x.whl", "1", "/dev/emu-releases/after"),
    ]
    assert devices[0].folders[0] == "/dev/emu", "where users look"
