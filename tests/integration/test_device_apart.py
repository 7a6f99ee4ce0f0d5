"""A device in a container of its own, and users in another: what is handed in is what they have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from engines import TREE

from qualify import container, gate, installs, owner
from qualify.build import Wheel
from qualify.compat import NAMES
from qualify.container import NODE_GROUP, NODES, OWNER_LABEL, Apart
from qualify.errors import ChangedError, RoomError
from qualify.images import Declaration
from qualify.outcome import Outcome
from qualify.pipeline import Prepared
from qualify.room import Room, RoomSpec, open_room

pytestmark = pytest.mark.integration

USE = """
import json, os, sys
import torch
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
said = {"nodes": os.listdir("/dev/emu"), "capabilities": int(status["CapEff"], 16),
        "seccomp": status["Seccomp"].strip(), "uid": os.getuid(), "groups": os.getgroups()}
try:
    x = torch.ones(1000, device="emu")
    said |= {"sum": (x + 1).sum().item(), "devices": torch.emu.device_count()}
except RuntimeError as error:
    said["error"] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="session")
def driver(prepared: Prepared) -> Wheel:
    (wheel,) = (wheel for wheel in prepared.wheels if wheel.name == "emu-driver-shim")
    return wheel


@pytest.fixture(scope="session")
def apart(prepared: Prepared, declared: Declaration, driver: Wheel) -> RoomSpec:
    spec = prepared.rooms[0]
    if not spec.engine.has_images:
        pytest.skip("a device apart is a container")
    (setting,) = (each for each in declared.setting if each.device_apart)
    device = Apart(driver=driver.path, sha256=driver.sha256)
    return msgspec.structs.replace(spec, setting=setting, devices=(device,))


@pytest.fixture(scope="session")
def three(apart: RoomSpec, prepared: Prepared) -> RoomSpec:
    """The room beside devices of the releases here, before and after."""
    assert prepared.releases is not None
    devices = installs.devices_of(prepared.wheels, prepared.releases)
    return msgspec.structs.replace(apart, devices=devices)


def used(room: Room, prepared: Prepared) -> dict[str, object]:
    installed = room.install([wheel.path for wheel in prepared.wheels])
    assert installed.ok, installed.stderr
    done = room.run([room.python, "-c", USE], timeout=120)
    assert done.ok, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def held(spec: RoomSpec, who: str) -> tuple[list[str], list[str]]:
    """Host names of the containers that the process `who` has, and their volumes of nodes."""
    with spec.engine.open_client() as client:
        label = {"label": f"{OWNER_LABEL}={who}"}
        boxes = client.containers.list(all=True, filters=label, ignore_removed=True)
        mounts = (mount for box in boxes for mount in box.attrs["Mounts"])
        volumes = [mount["Name"] for mount in mounts if mount["Destination"] == NODES]
        return sorted(box.attrs["Config"]["Hostname"] for box in boxes), volumes


def unused(spec: RoomSpec) -> set[str]:
    """Volumes that no container has."""
    with spec.engine.open_client() as client:
        return {volume.name for volume in client.volumes.list(filters={"dangling": True})}


@contextmanager
def nothing_left(spec: RoomSpec) -> Iterator[None]:
    """After the block, this process has the containers that it had, and no volume is left over.

    Another run's container may just be going, and its volume be without one for a moment.
    """
    me = owner.current().text()
    before, was_unused = held(spec, me)[0], unused(spec)
    yield
    assert held(spec, me)[0] == before
    deadline = time.monotonic() + 10
    while (more := unused(spec) - was_unused) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not more


def test_who_is_in_the_group_has_the_device_that_was_handed_in(
    apart: RoomSpec, prepared: Prepared
) -> None:
    with open_room(apart) as room:
        found = used(room, prepared)
    assert found.get("error") is None, found
    assert (found["sum"], found["devices"], found["nodes"]) == (2000.0, 1, ["emu1"])
    assert (found["uid"], found["capabilities"], found["seccomp"]) == (4321, 0, "2")


def test_who_is_not_is_told_node_mode_and_group(apart: RoomSpec, prepared: Prepared) -> None:
    shut = tuple(msgspec.structs.replace(device, grouped=False) for device in apart.devices)
    with open_room(msgspec.structs.replace(apart, devices=shut)) as room:
        found = used(room, prepared)
    error = str(found["error"])
    for part in ("/dev/emu/emu1", "mode 0660", f"({NODE_GROUP})", "uid 4321"):
        assert part in error, error


WAIT_AND_USE = """
import pathlib, time, torch
x = torch.ones(4, device="emu")
torch.accelerator.synchronize()
pathlib.Path("ready").touch()
while not pathlib.Path("dead").exists():
    time.sleep(0.05)
start = time.monotonic()
try:
    (x + 1).sum().item()
except RuntimeError as error:
    print(time.monotonic() - start < 10, error)
"""


def test_a_device_whose_container_dies_is_lost_at_once(apart: RoomSpec, prepared: Prepared) -> None:
    with open_room(apart) as room, ThreadPoolExecutor(1) as pool:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        user = pool.submit(room.run, [room.python, "-c", WAIT_AND_USE], timeout=120)
        ready = room.run(["sh", "-c", "until [ -e ready ]; do sleep 0.1; done"], timeout=100)
        assert ready.ok, user.result().stderr
        with apart.engine.open_client() as client:
            label = {"label": f"{OWNER_LABEL}={owner.current().text()}"}
            for box in client.containers.list(filters=label):
                if box.attrs["Config"]["Hostname"] == "device-here":
                    box.kill()
        assert room.run(["touch", "dead"], timeout=60).ok
        said = user.result().stdout
    assert said.startswith("True ") and "lost" in said, said


DEVICES = [f"device-{name}" for name in sorted(NAMES)]


def test_each_release_has_a_device_of_its_own(three: RoomSpec) -> None:
    me = owner.current().text()
    with nothing_left(three):
        before = held(three, me)[0]
        with open_room(three) as room:
            for folder in ("emu", *(f"emu-releases/{name}" for name in NAMES)):
                assert room.run(["test", "-S", f"/dev/{folder}/emu1"], timeout=60).ok, folder
            listed = room.run(["ls", "/dev/emu-releases"], timeout=60).stdout.split()
            assert listed == sorted(NAMES)
            boxes, volumes = held(three, me)
            assert boxes == sorted([*before, *DEVICES, "room"])
            assert len(volumes) == 3


def test_a_device_that_does_not_start_is_told_and_nothing_is_left(
    three: RoomSpec, prepared: Prepared
) -> None:
    (plugin,) = (wheel for wheel in prepared.wheels if wheel.name == "torch-emu")
    wrong = Apart(driver=plugin.path, sha256=plugin.sha256, release="after")
    with (
        nothing_left(three),
        pytest.raises(RoomError, match="the device of release after did not start"),
        open_room(msgspec.structs.replace(three, devices=(*three.devices[:2], wrong))),
    ):
        pass


def test_a_device_is_of_the_bytes_that_the_room_is_declared_to_have(
    three: RoomSpec, tmp_path: Path
) -> None:
    here, *others = three.devices
    driver = tmp_path / here.driver.name
    driver.write_bytes(here.driver.read_bytes() + b" ")
    swapped = msgspec.structs.replace(here, driver=driver)
    with (
        nothing_left(three),
        pytest.raises(ChangedError, match=here.sha256),
        open_room(msgspec.structs.replace(three, devices=(*others, swapped))),
    ):
        pass


KILLED = """
import sys
import msgspec
from qualify.room import RoomSpec, open_room
spec = msgspec.convert(msgspec.json.decode(sys.argv[1]), RoomSpec,
                       dec_hook=lambda kind, value: kind(value))
with open_room(spec):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_the_devices_of_a_killed_run_are_swept(three: RoomSpec) -> None:
    words = [sys.executable, "-c", KILLED, msgspec.json.encode(three, enc_hook=str).decode()]
    with nothing_left(three):
        with subprocess.Popen(
            words, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            who = owner.of(child.pid).text()
            assert held(three, who)[0] == [*DEVICES, "room"]
            child.kill()
        with three.engine.open_client() as client:
            container.sweep(client)
        assert held(three, who) == ([], [])


ASKS = """
import pytest
@pytest.mark.check("gate7.nodes.handed_in", obligations=["C3"], kind="focused test")
def test_nodes(pytestconfig):
    nodes = pytestconfig.getoption("--nodes")
    for release in ("before", "here", "after"):
        assert (nodes / release / "emu1").is_socket()
"""


def test_a_gate_is_told_where_the_nodes_are(
    three: RoomSpec, prepared: Prepared, tmp_path: Path
) -> None:
    (release,) = (each for each in prepared.matrix.gates.gates if each.number == installs.GATE)
    (tmp_path / release.folder).mkdir()
    (tmp_path / release.folder / "test_nodes.py").write_text(ASKS)
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(TREE / "tests" / "gates" / name, tmp_path)
    inputs = gate.Inputs(
        cell=prepared.cell,
        gate=release,
        suite=gate.read_suite(tmp_path, release),
        wheels=tuple(wheel.path for wheel in prepared.wheels),
        digests={wheel.path.name: wheel.sha256 for wheel in prepared.wheels},
        closure=prepared.closure.sha256,
        room=three,
        releases=prepared.releases,
    )
    made = gate.run(inputs).predicate
    assert made.ended and [each.outcome for each in made.results] == [Outcome.PASSED], made
