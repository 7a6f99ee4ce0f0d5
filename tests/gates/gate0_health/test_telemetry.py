"""Telemetry says where time went, and power modes and heat do to the clock what they state."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health import programs
from gate0_health.serving import served
from tolerances import tolerance

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.serving import Configuration, Node

SPENT = ("matrix", "vector", "memory", "control", "copy", "waiting", "idle")
# Arguments: 16 KiB of memory.
MIXED = """
.program mixed
.lanes 4096
.args 8
arg.i64 s0, 0
const.i64 s1, 64
const.i64 s2, 256
mload.f32 m0, s0, s2, s1, s1
mload.f32 m1, s0, s2, s1, s1
mzero.f32 m2, s1, s1
mma.f32 m2, m0, m1
load.f32 v0, s0
exp.f32 v0, v0
store.f32 v0, s0
exit
"""


def spent(now: emu_runtime.Telemetry) -> dict[str, int]:
    return {kind: getattr(now, f"spent_{kind}_ticks") for kind in SPENT}


@pytest.mark.check("gate0.telemetry.adds_up", obligations=["G0", "O3"], kind="focused test")
def test_adds_up(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Where time went is told, and what is told is not all of the time, or more than there was."""
    import emu_runtime

    module = emu_runtime.Module(runtime.index, MIXED)
    block = runtime.alloc(1 << 20)
    before = runtime.telemetry()
    readings = [before]
    for size in (64, 4096, 1 << 20):
        runtime.fill(block, 0, size)
        for _ in range(5):
            module.launch((1, 1, 1), struct.pack("<q", block))
        runtime.write(block, bytes(size))
        runtime.copy(block, block + size // 2, size // 2)
        runtime.read(block, size)
        readings.append(runtime.telemetry())
    runtime.free(block)
    after = readings[-1]
    grown = {kind: ticks - spent(before)[kind] for kind, ticks in spent(after).items()}
    detail(readings=len(readings), grown=grown, ticks=after.device_ticks - before.device_ticks)
    for now in readings:
        assert sum(spent(now).values()) == now.device_ticks
        assert now.device_ticks - now.spent_waiting_ticks - now.spent_idle_ticks == now.busy_ticks
        ways = (now.to_device_ticks, now.from_device_ticks, now.on_device_ticks)
        assert sum(ways) == now.copy_ticks
    assert all(grown[kind] > 0 for kind in ("matrix", "vector", "memory", "control"))
    assert grown["copy"] + after.copy_engine_ticks - before.copy_engine_ticks > 0


@pytest.mark.check("gate0.telemetry.bandwidth", obligations=["G0", "O3"], kind="focused test")
def test_bandwidth(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """The bandwidth that is told is not what copies had: bytes over the time that they took."""
    from emu_runtime import figures

    hertz = runtime.properties().clock_hertz
    block = runtime.alloc(1 << 22)
    got: dict[int, dict[str, float | None]] = {}
    for size in (4096, 1 << 21):
        before = runtime.telemetry()
        runtime.write(block, bytes(size))
        runtime.read(block, size)
        runtime.copy(block, block + size, size)
        runtime.synchronize()
        after = runtime.telemetry()
        for way in ("to_device", "from_device", "on_device"):
            assert getattr(after, f"bytes_{way}") - getattr(before, f"bytes_{way}") == size, way
        got[size] = figures.bandwidths(after, hertz, before)
    runtime.free(block)
    detail(bytes_a_second=got)
    for way in ("to_device", "from_device", "on_device"):
        small, large = (got[size][way] for size in (4096, 1 << 21))
        assert small and large
        # A copy has a fixed cost, which small ones pay as well: large ones get more through.
        assert 0 < small < large / 4
        assert large <= 64 * hertz


@pytest.mark.check("gate0.telemetry.queue_delay", obligations=["G0", "O3"], kind="focused test")
def test_queue_delay(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Work that waits behind another queue's does not show, or shows where nothing waits."""
    import emu_runtime

    module = emu_runtime.Module(runtime.index, programs.SCALE_ADD)
    count = 1 << 20
    x, y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    first, second = emu_runtime.Stream(runtime.index), emu_runtime.Stream(runtime.index)
    runtime.synchronize()
    start = runtime.telemetry()
    programs.scale_add(module, x, y, count, 1.0, first)
    first.synchronize()
    alone = runtime.telemetry()
    gate = emu_runtime.Event(runtime.index)
    programs.scale_add(module, x, y, count, 1.0, first)  # which the others find before them
    gate.record(first)
    second.wait_event(gate)
    for stream in (first, second, first, second):
        programs.scale_add(module, x, y, count, 1.0, stream)
    runtime.synchronize()
    after = runtime.telemetry()
    runtime.free(x)
    runtime.free(y)
    delays = [
        b.queue_delay_ticks - a.queue_delay_ticks for a, b in ((start, alone), (alone, after))
    ]
    detail(ticks_alone=delays[0], ticks_together=delays[1])
    assert delays[0] == 0
    assert delays[1] > 0
    assert after.queue_delay_most_ticks > 0
    assert after.queue_delay_ns > alone.queue_delay_ns


@pytest.mark.check("gate0.telemetry.memory_pressure", obligations=["G0", "O3"], kind="focused test")
def test_memory_pressure(
    configuration: Configuration, tmp_path: Path, detail: Callable[..., None]
) -> None:
    """Memory runs short and nobody is told, or who holds it is not."""
    code = """
import json, os, subprocess, sys
import emu_runtime
from emu_runtime.errors import OutOfMemoryError
device = emu_runtime.Device(0)
total, levels, blocks = device.properties().memory_bytes, [], []
def note():
    now = device.telemetry()
    level = emu_runtime.MemoryPressure(now.memory_pressure).name
    levels.append([now.memory_used_bytes / total, level])
for share in (0.5, 0.9, 0.97):
    held = device.telemetry().memory_used_bytes
    blocks.append(device.alloc(int(total * share) - held))
    note()
other = subprocess.run([sys.executable, "-c", sys.argv[1]], capture_output=True, text=True)
for block in blocks:
    device.free(block)
device.empty_cache()
note()
print(json.dumps([os.getpid(), total, levels, other.stdout + other.stderr]))
"""
    asks = """
import emu_runtime
from emu_runtime.errors import OutOfMemoryError
try:
    emu_runtime.Device(0).alloc(64 << 20)
except OutOfMemoryError as error:
    print(error)
"""
    with served(tmp_path, *configuration.options, "--memory", str(256 << 20)) as node:
        done = run_python(code, asks, env=node.env)
    assert done.status == 0, done.told
    holder, total, levels, refused = json.loads(done.stdout)
    detail(levels=levels, refused=refused)
    assert total == 256 << 20
    assert [level for _, level in levels] == ["NONE", "HIGH", "CRITICAL", "NONE"]
    assert f"by process {holder}" in refused and "64.0 MiB asked" in refused, refused


@pytest.mark.check("gate0.power.modes", obligations=["G0", "P7"], kind="focused test")
def test_power_modes(node: Node, detail: Callable[..., None]) -> None:
    """A power mode does not change the clock as it states, or changes what a tick is."""
    done = run_python(EACH_MODE, programs.SCALE_ADD, env=node.env)
    assert done.status == 0, done.told
    hertz, modes = json.loads(done.stdout)
    detail(clock_hertz=hertz, modes=modes)
    assert len(modes) == 3
    nominal = next(mode for mode in modes if mode["name"] == "nominal")
    assert nominal["stated_hertz"] == hertz
    for mode in modes:
        assert mode["clock_hertz"] == mode["stated_hertz"]
        # Cycles are as many in each mode; a tick is 1 / clock_hertz of the device.
        cycles = nominal["ticks"]
        percent = mode["stated_hertz"] * 100 // hertz
        assert mode["ticks"] == -(-cycles * 100 // percent), mode
        assert mode["copy_ticks"] == nominal["copy_ticks"]
    assert len({mode["bits"] for mode in modes}) == 1
    assert [mode["changes"] for mode in modes[1:]] == [modes[0]["changes"] + n for n in (1, 2)]


EACH_MODE = """
import dataclasses, hashlib, json, struct, sys
import emu_runtime
device = emu_runtime.Device(0)
module = emu_runtime.Module(0, sys.argv[1])
count = 100_000
x, y = device.alloc(4 * count), device.alloc(4 * count)
found = []
for mode in device.power_modes():
    device.fill(y, 0, 4 * count)
    device.synchronize()
    device.set_power_mode(mode.name)
    now = device.telemetry()
    with emu_runtime.record_activity() as records:
        module.launch((-(-count // 256), 1, 1), struct.pack("<qqqf4x", x, y, count, 2.0))
        device.copy(x, y, 4 * count)
    ticks = {record.kind.name: record.ticks for record in records}
    found.append(dict(
        name=mode.name, stated_hertz=mode.clock_hertz, clock_hertz=now.clock_hertz,
        changes=now.clock_changes, ticks=ticks["LAUNCH"], copy_ticks=ticks["COPY_ON_DEVICE"],
        bits=hashlib.sha256(device.read(y, 4 * count)).hexdigest(),
    ))
print(json.dumps([device.properties().clock_hertz, found]))
"""

HOT_CELSIUS = 95  # of the air: no mode may run at its own clock in that


@pytest.mark.check("gate0.power.throttling", obligations=["G0", "O3", "P7"], kind="focused test")
def test_throttling(
    configuration: Configuration, node: Node, tmp_path: Path, detail: Callable[..., None]
) -> None:
    """A device that is too hot goes on as fast, or is slower and does not say why."""
    hot = tmp_path / "hot"
    hot.mkdir()
    told = {}
    with served(hot, *configuration.options, "--ambient", str(HOT_CELSIUS)) as other:
        for name, env in (("cool", node.env), ("hot", other.env)):
            done = run_python(ONE_LAUNCH, programs.SCALE_ADD, env=env)
            assert done.status == 0, done.told
            told[name] = json.loads(done.stdout)
    detail(ambient_celsius=HOT_CELSIUS, **told)
    assert told["cool"]["throttle"] == "NONE" and told["cool"]["throttled_ticks"] == 0
    assert told["hot"]["throttle"] == "THERMAL"
    assert told["hot"]["throttled_ticks"] > 0
    assert told["hot"]["temperature_celsius"] >= 90 > told["cool"]["temperature_celsius"]
    assert told["hot"]["clock_hertz"] < told["cool"]["clock_hertz"]
    slower = told["cool"]["clock_hertz"] / told["hot"]["clock_hertz"]
    allowed = tolerance("throttled_ticks").value
    assert told["hot"]["ticks"] == pytest.approx(slower * told["cool"]["ticks"], rel=allowed)


ONE_LAUNCH = """
import dataclasses, json, struct, sys
import emu_runtime
device = emu_runtime.Device(0)
module = emu_runtime.Module(0, sys.argv[1])
count = 1_000_000
x, y = device.alloc(4 * count), device.alloc(4 * count)
with emu_runtime.record_activity() as records:
    module.launch((-(-count // 256), 1, 1), struct.pack("<qqqf4x", x, y, count, 2.0))
(launch,) = records
told = dataclasses.asdict(device.telemetry())
told.update(ticks=launch.ticks, throttle=emu_runtime.Throttle(told["throttle"]).name)
print(json.dumps(told))
"""
