"""Firmware: upgrade, rollback, and what is refused or interrupted leaves the device as it was.

The images in `firmware/` are made by driver_shim/tools/firmware_image.py and signed with the test
key of the emulated device; a test makes them again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from child import run_python
from gate0_health.serving import Configuration, Node, served

if TYPE_CHECKING:
    from emu_driver_shim.driver import Device

IMAGES = Path(__file__).parent / "firmware"
SAME_INDEX = "same-index.img"  # 1.1.0, with the rollback index of the built-in 1.0.0
HIGHER_INDEX = "higher-index.img"  # 1.2.0, after which no 1.1.0 may start
NEWER_DRIVER = "newer-driver.img"  # 1.3.0, for driver interface 1.999
BUILT_IN = "1.0.0"


@contextmanager
def opened(node: Node) -> Iterator[Device]:
    from emu_driver_shim.driver import Device

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMU_DEVICE_DIR", str(node.folder))
        device = Device(0)
    try:
        yield device
    finally:
        device.close()


def image(name: str) -> bytes:
    return (IMAGES / name).read_bytes()


def state(device: Device) -> dict[str, Any]:
    from emu_driver_shim.firmware import firmware_data

    data: dict[str, Any] = firmware_data(device.firmware())
    return data


def running(device: Device) -> str:
    """What the device says of itself, which what runs has to be."""
    version: str = state(device)["version"]
    assert device.info().firmware.decode() == version
    return version


def refusal(act: Callable[[], None]) -> tuple[str, str]:
    """Status and cause."""
    from emu_driver_shim.driver import DriverError

    with pytest.raises(DriverError) as raised:
        act()
    return raised.value.status, raised.value.cause


def upgrade(device: Device, name: str) -> None:
    device.write_firmware(image(name))
    device.activate()
    device.reset()


@pytest.mark.check("gate0.firmware.upgrade", obligations=["G0", "R2"], kind="focused test")
def test_upgrade(node: Node, detail: Callable[..., None]) -> None:
    """New firmware runs before it was activated, not after, or is there and not what runs."""
    with opened(node) as device:
        seen = [running(device)]
        device.write_firmware(image(SAME_INDEX))
        seen.append(running(device))
        device.activate()
        seen.append(running(device))
        device.reset()
        seen.append(running(device))
        detail(versions=seen)
        assert seen == [BUILT_IN, BUILT_IN, BUILT_IN, "1.1.0"]


@pytest.mark.check("gate0.firmware.rollback", obligations=["G0", "R2"], kind="focused test")
def test_rollback(node: Node, detail: Callable[..., None]) -> None:
    """The way back to firmware that may still start is closed."""
    with opened(node) as device:
        upgrade(device, SAME_INDEX)
        device.rollback()
        waiting = running(device)
        device.reset()
        detail(before_reset=waiting, after_reset=running(device))
        assert (waiting, running(device)) == ("1.1.0", BUILT_IN)


@pytest.mark.check("gate0.firmware.rollback_refused", obligations=["G0", "R2"], kind="focused test")
def test_rollback_refused(node: Node, detail: Callable[..., None]) -> None:
    """Firmware starts that is older than one which ran, with the hole that was mended since."""
    with opened(node) as device:
        upgrade(device, HIGHER_INDEX)
        assert running(device) == "1.2.0"
        back = refusal(device.rollback)
        older = refusal(lambda: device.write_firmware(image(SAME_INDEX)))
        device.reset()
        detail(back=back, older=older, runs=running(device))
        for status, cause in (back, older):
            assert status == "ROLLBACK", cause
            assert "1" in cause and "2" in cause  # the indices
        assert running(device) == "1.2.0"
        assert state(device)["minimum_rollback_index"] == 2


@pytest.mark.check("gate0.firmware.bad_signature", obligations=["G0", "R2"], kind="focused test")
def test_bad_signature(node: Node, detail: Callable[..., None]) -> None:
    """Firmware of which a bit was changed, anywhere, or that is cut short, is taken."""
    whole = image(SAME_INDEX)
    taken, causes = [], set()
    with opened(node) as device:
        for place in range(len(whole)):
            wrong = bytearray(whole)
            wrong[place] ^= 1 << place % 8
            status, cause = refusal(partial(device.write_firmware, bytes(wrong)))
            causes.add((status, cause.split(":")[0]))
            if state(device)["slots"][1]["state"] == "valid":
                taken.append(place)
        status, cause = refusal(lambda: device.write_firmware(whole[:-1]))
        activated = refusal(device.activate)
        device.reset()
        detail(changed_bytes=len(whole), taken=taken, cut=[status, cause], activated=activated)
        assert taken == []
        assert status == "BAD_FIRMWARE" and activated[0] == "BAD_FIRMWARE"
        assert {status for status, _ in causes} <= {"BAD_FIRMWARE", "VERSION", "ROLLBACK"}
        assert running(device) == BUILT_IN
        upgrade(device, SAME_INDEX)
        assert running(device) == "1.1.0", "a good image after all the bad ones"


@pytest.mark.check("gate0.firmware.minimum_driver", obligations=["G0", "C2"], kind="focused test")
def test_minimum_driver(node: Node, detail: Callable[..., None]) -> None:
    """Firmware for a newer driver is taken, or refused without both versions."""
    with opened(node) as device:
        status, cause = refusal(lambda: device.write_firmware(image(NEWER_DRIVER)))
        interface = device.info().interface_version
        device.reset()
        detail(status=status, cause=cause, runs=running(device))
        assert status == "VERSION"
        assert "1.999" in cause and f"{interface // 1000}.{interface % 1000}" in cause
        assert running(device) == BUILT_IN


@pytest.mark.check("gate0.firmware.interrupted", obligations=["G0", "R2"], kind="focused test")
def test_interrupted(
    configuration: Configuration, tmp_path: Path, detail: Callable[..., None]
) -> None:
    """The device dies half-way in an upgrade, and starts no more, or half of it."""
    options = [*configuration.options, "--state-dir", str(tmp_path / "state")]
    whole = image(SAME_INDEX)
    ends = (1, 100, 160, len(whole) - 1)
    for end in ends:
        with served(tmp_path, *options) as node, opened(node) as device:
            device._call("firmware_write", len(whole), 0, whole[:end], end)
            node.process.kill()
            node.process.wait()
        with served(tmp_path, *options) as node, opened(node) as device:
            left = state(device)
            assert running(device) == BUILT_IN
            assert left["slots"][1]["state"] == "invalid", left
            assert refusal(device.activate)[0] == "BAD_FIRMWARE"
    with served(tmp_path, *options) as node, opened(node) as device:
        device.write_firmware(whole)
        device.activate()
        node.process.kill()  # before a reset: the next start is one
        node.process.wait()
    with served(tmp_path, *options) as node, opened(node) as device:
        detail(killed_after_bytes=ends, of=len(whole), then=running(device))
        assert running(device) == "1.1.0"


# A launch, an image that is written, a launch; then one that faults.
COMMANDS = f"""
import json, os, struct
from pathlib import Path
import emu_runtime
from emu_runtime.errors import PageFaultError
from emu_driver_shim.driver import Device

PROGRAM = '''
.program word
.lanes 64
.args 8
arg.i64 s0, 0
sload.i64 s1, s0
sstore.i64 s1, s0
exit
'''
device, other = emu_runtime.Device(0), Device(0)
word = device.alloc(8)
module = emu_runtime.Module(0, PROGRAM)
with emu_runtime.record_activity() as records:
    module.launch((1, 1, 1), struct.pack("<q", word))
    device.synchronize()
    other.write_firmware(Path({str(IMAGES / SAME_INDEX)!r}).read_bytes())
    module.launch((1, 1, 1), struct.pack("<q", word))
launches = [r for r in records if r.kind == emu_runtime.ActivityKind.LAUNCH]
firmware = [r for r in records if r.kind == emu_runtime.ActivityKind.FIRMWARE]
module.launch((1, 1, 1), struct.pack("<q", 0))
try:
    device.synchronize()
    raise SystemExit("no fault")
except PageFaultError:
    pass
print(json.dumps(dict(
    launches=[[r.start_ticks, r.end_ticks] for r in launches],
    firmware=[[r.command, r.start_ticks] for r in firmware],
    process=os.getpid(),
)))
"""


@pytest.mark.check("gate0.event.on_command_clock", obligations=["G0", "O2"], kind="focused test")
def test_event_clock(node: Node, detail: Callable[..., None]) -> None:
    """The log loses what happened, or tells another time than the commands around it."""
    from emu_driver_shim.firmware import event_data

    with opened(node) as device:
        done = run_python(COMMANDS, env=node.env)
        assert done.status == 0, done.told
        told = json.loads(done.stdout)
        device.reset()
        events, dropped = device.events()
    log = [event_data(event) for event in events]
    kinds = [event["kind"] for event in log]
    detail(kinds=kinds, told=told, dropped=dropped)
    assert dropped == 0
    assert kinds[0] == "boot"
    (written,) = (event for event in log if event["kind"] == "firmware_written")
    (fault,) = (event for event in log if event["kind"] == "fault")
    assert kinds.index("firmware_written") < kinds.index("fault") < kinds.index("reset")
    (first, last), seen = told["launches"], told["firmware"]
    # Between the two launches, in the log and among their activity records.
    assert first[1] <= written["ticks"] <= last[0]
    assert seen == [[written["sequence"], written["ticks"]]]
    assert fault["ticks"] >= last[1] and fault["process"] == told["process"]
    assert all(a["ticks"] <= b["ticks"] for a, b in pairwise(log))
    assert all(a["nanoseconds"] <= b["nanoseconds"] for a, b in pairwise(log))
