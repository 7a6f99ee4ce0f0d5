"""Releases that meet across containers: the check sees a driver shim that asks for no number."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from engines import TREE

from qualify import build, gate, installs, interpreter, report
from qualify.build import PACKAGES, Package, Wheel
from qualify.compat import NAMES
from qualify.container import NODES_OF_RELEASES
from qualify.images import Declaration
from qualify.outcome import Outcome
from qualify.pipeline import Prepared
from qualify.report import Attempt
from qualify.room import Room, RoomSpec, open_room
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
JUDGED = "if (welcome.status != EMU_OK || !interfaces_meet("


class Unchecked:
    """The sources of a driver shim that takes any answer for the right one."""

    text = "a driver shim that does not look at the interface of the device"

    def apply(self, source: Path, package: Package) -> None:
        path = source / package.folder / "src" / "client" / "connection.cpp"
        text = path.read_text()
        assert text.count(JUDGED) == 1, f"{path} judges elsewhere: mend this seed"
        path.write_text(text.replace(JUDGED, "if (false && !interfaces_meet("))


@pytest.fixture(scope="session")
def three(prepared: Prepared, declared: Declaration) -> RoomSpec:
    spec = prepared.rooms[0]
    if not spec.engine.has_images:
        pytest.skip("a device apart is a container")
    assert prepared.releases is not None
    (setting,) = (each for each in declared.setting if each.device_apart)
    devices = installs.devices_of(prepared.wheels, prepared.releases)
    return msgspec.structs.replace(spec, setting=setting, devices=devices)


@pytest.fixture(scope="session")
def unchecked(prepared: Prepared, declared: Declaration, stages: Stages, three: RoomSpec) -> Wheel:
    tools = build.toolchain(stages, three.engine, declared.build)
    found = interpreter.find()
    return build.build_wheel(stages, TREE, PACKAGES[0], tools, found, None, move=Unchecked())


@pytest.fixture(scope="module")
def room(three: RoomSpec, prepared: Prepared) -> Iterator[Room]:
    with open_room(three) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        room.put(TREE / "tests" / "gates")
        yield room


def met(
    room: Room, prepared: Prepared, name: str, driver: Path, nodes: str = NODES_OF_RELEASES
) -> dict[str, Attempt]:
    """What came of each host's case; `driver` is the wheel of the release here."""
    assert prepared.releases is not None
    others = [wheel.path for wheel in prepared.wheels if wheel.name != PACKAGES[0].name]
    with tempfile.TemporaryDirectory() as scratch:
        releases = room.put(gate.lay_out(Path(scratch), [driver, *others], prepared.releases), name)
    words = [room.python, "-m", "pytest", "gate7_release/test_skew.py", "-k", "test_device"]
    words += ["--releases", releases, "--nodes", nodes, "--report", f"{name}.jsonl"]
    done = room.run(words, cwd="gates", timeout=300)
    found = report.parse(room.get(f"gates/{name}.jsonl"))
    assert found.end is not None, done.stdout + done.stderr
    return {attempt.case: attempt for attempt in found.attempts}


def driver_of(prepared: Prepared) -> Path:
    (wheel,) = (wheel for wheel in prepared.wheels if wheel.name == PACKAGES[0].name)
    return wheel.path


def test_releases_meet_across_containers(room: Room, prepared: Prepared) -> None:
    found = met(room, prepared, "right", driver_of(prepared))
    assert {case: attempt.outcome for case, attempt in found.items()} == dict.fromkeys(
        NAMES, Outcome.PASSED
    ), found
    for attempt in found.values():
        assert attempt.detail["device"] == "a process in another container"


def test_a_shim_that_does_not_look_at_the_number_is_seen(
    room: Room, prepared: Prepared, unchecked: Wheel
) -> None:
    found = met(room, prepared, "unchecked", unchecked.path)
    assert found["before"].outcome is Outcome.FAILED
    assert "here on a host with before" in found["before"].message
    assert found["here"].outcome is found["after"].outcome is Outcome.PASSED


def test_a_device_of_the_same_container_is_not_taken_for_another(
    room: Room, prepared: Prepared
) -> None:
    for name in NAMES:
        made = room.run(["mkdir", "-p", f"/tmp/same/{name}"], timeout=60)
        assert made.ok, made.stderr
        started = room.run(["emud", "--node", f"/tmp/same/{name}/emu0"], timeout=60)
        assert started.ok, started.stderr
    found = met(room, prepared, "same", driver_of(prepared), nodes="/tmp/same")
    for attempt in found.values():
        assert attempt.outcome is Outcome.FAILED
        assert "served by a process in this container" in attempt.message
