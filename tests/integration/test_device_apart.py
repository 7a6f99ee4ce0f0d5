"""A device in a container of its own, and users in another: what is handed in is what they have."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from qualify import owner
from qualify.build import Wheel
from qualify.container import NODE_GROUP, OWNER_LABEL, Apart
from qualify.errors import RoomError
from qualify.images import Declaration
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
    return msgspec.structs.replace(spec, setting=setting, device=device)


def used(room: Room, prepared: Prepared) -> dict[str, object]:
    installed = room.install([wheel.path for wheel in prepared.wheels])
    assert installed.ok, installed.stderr
    done = room.run([room.python, "-c", USE], timeout=120)
    assert done.ok, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def left(spec: RoomSpec) -> tuple[int, int]:
    with spec.engine.open_client() as client:
        labelled = client.containers.list(all=True, filters={"label": OWNER_LABEL})
        return len(labelled), len(client.volumes.list())


def test_who_is_in_the_group_has_the_device_that_was_handed_in(
    apart: RoomSpec, prepared: Prepared
) -> None:
    with open_room(apart) as room:
        found = used(room, prepared)
    assert found.get("error") is None, found
    assert (found["sum"], found["devices"], found["nodes"]) == (2000.0, 1, ["emu1"])
    assert (found["uid"], found["capabilities"], found["seccomp"]) == (4321, 0, "2")


def test_who_is_not_is_told_node_mode_and_group(apart: RoomSpec, prepared: Prepared) -> None:
    assert apart.device is not None
    shut = msgspec.structs.replace(apart.device, grouped=False)
    with open_room(msgspec.structs.replace(apart, device=shut)) as room:
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
                if box.attrs["Config"]["Hostname"] == "device":
                    box.kill()
        assert room.run(["touch", "dead"], timeout=60).ok
        said = user.result().stdout
    assert said.startswith("True ") and "lost" in said, said


def test_a_device_that_does_not_start_is_told_and_nothing_is_left(
    apart: RoomSpec, prepared: Prepared
) -> None:
    before = left(apart)
    (plugin,) = (wheel for wheel in prepared.wheels if wheel.name == "torch-emu")
    wrong = Apart(driver=plugin.path, sha256=plugin.sha256)
    with (
        pytest.raises(RoomError, match="the device did not start"),
        open_room(msgspec.structs.replace(apart, device=wrong)),
    ):
        pass
    assert left(apart) == before


def test_nothing_is_left_of_a_room_with_a_device(apart: RoomSpec) -> None:
    before = left(apart)
    with open_room(apart) as room:
        assert room.run(["test", "-S", "/dev/emu/emu1"], timeout=60).ok
        assert left(apart)[0] == before[0] + 2 and left(apart)[1] > before[1]
    assert left(apart) == before
