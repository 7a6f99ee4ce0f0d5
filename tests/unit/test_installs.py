"""A room of the install matrix is judged from its record alone, whatever the run believed."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from samples import CELL, GATES, World, check, events, jsonl, room, spec

from qualify import images, installs, interpreter
from qualify.build import Wheel
from qualify.claim import Asked, Denial, Verdict
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError, InputError
from qualify.evidence import Digest, Neighbour
from qualify.gate import Releases
from qualify.matrix import Gates, load
from qualify.rooms import Choice
from qualify.show import installed

CHECK = "gate7.install.offline"
OTHER = "gate7.a.one"  # which no tier of the samples names


def judged(
    tmp_path: Path, outcome: str = "passed", name: str = "debian12+root", of: str = CHECK
) -> Verdict:
    """The verdict on a room in which one check, `of`, went like that and the other passed."""
    world = recorded(tmp_path, outcome, name, of)
    return asked_of(world)


def recorded(tmp_path: Path, outcome: str, name: str, of: str = CHECK) -> World:
    facts = msgspec.structs.replace(room("debian12"), name=name)
    here = installs.cell_of(CELL, spec(facts))
    world = World(tmp_path, cell=here)
    checks = [check(id, outcome if id == of else "passed") for id in (OTHER, CHECK)]
    lines = events(*checks, gate=7, end=0 if outcome == "passed" else 1)
    world.add(jsonl(lines), 7, facts, cell=here)
    return world


def asked_of(world: World) -> Verdict:
    tier = installs.tier(GATES)
    return world.decide(tier.name, gates=msgspec.structs.replace(GATES, tiers=(tier,)))


def test_a_room_in_which_all_checks_pass(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.claim, verdict.reasons
    assert [(row.room, row.planned, row.passed) for row in verdict.rows if row.room] == [
        ("debian12+root", 2, 2)
    ]
    assert verdict.cell.images == ("debian12",), "the system of the room, whatever its setting"


def test_a_system_in_the_making_has_a_name_too() -> None:
    facts = msgspec.structs.replace(room("debian-forky"), os_version="forky")
    assert installs.cell_of(CELL, spec(facts)).images == ("debian-forky",)


@pytest.mark.parametrize("of", [CHECK, OTHER])
@pytest.mark.parametrize("outcome", ["failed", "skipped", "error"])
def test_a_check_that_does_not_pass_refuses_its_room(tmp_path: Path, outcome: str, of: str) -> None:
    verdict = judged(tmp_path, outcome, of=of)
    assert not verdict.claim
    assert [reason.check for reason in verdict.reasons] == [of]


def test_a_matrix_that_requires_nothing_of_the_gate_asks_nothing_and_is_refused() -> None:
    nothing = msgspec.structs.replace(GATES.gates[7], required=())
    gates = msgspec.structs.replace(GATES, gates=(*GATES.gates[:7], nothing))
    with pytest.raises(InputError, match="gate 7 requires no checks"):
        installs.tier(gates)


def test_what_a_tier_leaves_out_is_asked_for_too() -> None:
    gates = load(Path(__file__).parents[2] / "matrix" / "gates.toml", Gates)
    left_out = set(installs.tier(gates).checks) - set(gates.tier("experimental").checks)
    assert left_out == {"gate7.install.glibc_floor"}


def test_no_record_is_a_refusal(tmp_path: Path) -> None:
    facts = msgspec.structs.replace(room(), name="debian12+root")
    world = World(tmp_path, cell=installs.cell_of(CELL, spec(facts))).fill()
    world.asked = [Asked(facts.name, 7, "7" * 64)]
    verdict = asked_of(world)
    assert not verdict.claim and verdict.reasons


ROOT = installs.Installed(python="3.11", room="debian12+root", verdict=None, seconds=1.5)


def words(*rooms: installs.Installed) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(installed(installs.Report(installed=rooms)))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_report_is_complete_only_if_every_room_is(tmp_path: Path) -> None:
    good = msgspec.structs.replace(ROOT, verdict=judged(tmp_path / "a"), reused=True)
    bad = msgspec.structs.replace(
        ROOT,
        room="debian12+nameless",
        verdict=judged(tmp_path / "b", "failed", "debian12+nameless"),
    )
    assert installs.Report(installed=(good,)).complete
    assert not installs.Report(installed=(good, bad)).complete
    assert not installs.Report(installed=()).complete
    text = words(good, bad)
    assert "1.5 reused" in text and "1 of 2 rooms" in text
    assert f"Python 3.11 in debian12+nameless: {CHECK}: failed" in text


def test_a_changed_record_hides_no_other_room(tmp_path: Path) -> None:
    good = msgspec.structs.replace(ROOT, verdict=judged(tmp_path / "a"))
    world = recorded(tmp_path / "b", "passed", "debian12+nameless")
    (record,) = (tmp_path / "b" / "records").iterdir()
    data = bytearray(record.read_bytes())
    data[len(data) // 2] ^= 1
    record.write_bytes(data)
    bad = msgspec.structs.replace(ROOT, room="debian12+nameless", verdict=asked_of(world))
    text = words(bad, good)
    assert "1 of 2 rooms" in text and "was changed after it was written" in text
    assert re.search(r"3.11 +debian12\+nameless +- +- +1.5 +-", text)
    assert re.search(r"3.11 +debian12\+root +2 +2 +1.5 +[0-9a-f]{12}", text)


def test_a_room_of_which_nothing_could_be_found_out_is_no_claim(tmp_path: Path) -> None:
    good = msgspec.structs.replace(ROOT, verdict=judged(tmp_path))
    lost = msgspec.structs.replace(ROOT, room="debian13", trouble="no disk [red]left")
    report = installs.Report(installed=(good, lost))
    assert not report.complete
    text = words(*report.installed)
    assert "Python 3.11 in debian13: could not be found out: no disk [red]left" in text
    assert "1 of 2 rooms" in text


def test_denied_wheels_are_refused_once_and_are_in_no_room(tmp_path: Path) -> None:
    world = World(tmp_path)
    tier = installs.tier(GATES)
    gates = msgspec.structs.replace(GATES, tiers=(tier,))
    denials = [Denial(what="audit: size-over", mend="make it smaller")]
    refused = world.decide(tier.name, gates=gates, denials=denials)
    denied = msgspec.structs.replace(ROOT, room="", verdict=refused)
    assert not installs.Report(installed=(denied,)).complete
    assert "Python 3.11: audit: size-over" in words(denied)


def test_a_room_that_cannot_be_is_told_before_the_work() -> None:
    declared = images.load(Path(__file__).parents[2] / "containers" / "images.toml")
    choice = Choice(
        engine=Engine(kind=RoomKind.DOCKER),
        python=interpreter.find(),
        able=declared.room[:1],
    )
    installs.require(choice, declared, ("debian12", "debian12+root"))
    with pytest.raises(InputError, match=r"unknown room 'debian12\+rot'.*got debian12\+rot"):
        installs.require(choice, declared, ("debian12", "debian12+rot"))
    with pytest.raises(HostError, match="does not run in room debian13"):
        installs.require(choice, declared, ("debian12", "debian13+root"))
    without = msgspec.structs.replace(choice, engine=Engine(kind=RoomKind.SANDBOX), able=())
    with pytest.raises(HostError, match="expected a container engine"):
        installs.require(without, declared, ("debian12",))


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
