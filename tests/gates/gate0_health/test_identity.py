"""The device says who it is, which firmware it runs, and what it has been doing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health import programs

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.conftest import Node


@pytest.mark.check("gate0.identity.read", obligations=["B2", "G0"], kind="focused test")
def test_identity(runtime: emu_runtime.Device, node: Node, detail: Callable[..., None]) -> None:
    """The device has no identity, or another one for each process that asks."""
    properties = runtime.properties()
    detail(asdict(properties))
    assert properties.name
    assert str(uuid.UUID(properties.uuid)) == properties.uuid.lower()
    assert re.fullmatch(r"[A-Z][0-9]", properties.stepping)
    assert properties.cores > 0 and properties.memory_bytes > 0 and properties.clock_hertz > 0
    ask = "import emu_runtime; print(emu_runtime.Device(0).properties().uuid)"
    answers = [run_python(ask, env=node.env) for _ in range(2)]
    assert [done.status for done in answers] == [0, 0], answers[0].told
    assert answers[0].stdout == answers[1].stdout
    assert uuid.UUID(answers[0].stdout.strip())


@pytest.mark.check("gate0.firmware.version", obligations=["B2", "G0"], kind="focused test")
def test_firmware(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """The firmware does not say which it is, or the device process is not the installed one."""
    properties = runtime.properties()
    installed = metadata.version("emu-driver-shim")
    detail(firmware=properties.firmware, driver=properties.driver, installed=installed)
    assert re.fullmatch(r"\d+\.\d+\.\d+", properties.firmware)
    assert properties.driver == installed


@pytest.mark.check("gate0.telemetry.advances", obligations=["G0", "O3"], kind="focused test")
def test_telemetry(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Counters stand still while the device works, or move while it does nothing."""
    import emu_runtime

    count = 100_000
    x, y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    runtime.fill(x, 0, 4 * count)
    runtime.fill(y, 0, 4 * count)
    module = emu_runtime.Module(0, programs.SCALE_ADD)
    runtime.synchronize()
    first = runtime.telemetry()
    idle = runtime.telemetry()
    for _ in range(10):
        programs.scale_add(module, x, y, count, 2.0)
    runtime.write(x, bytes(4 * count))
    runtime.read(y, 4 * count)
    runtime.synchronize()
    after = runtime.telemetry()
    runtime.free(x)
    runtime.free(y)
    detail(before=asdict(idle), after=asdict(after))
    assert (idle.launches, idle.commands) == (first.launches, first.commands)
    assert after.launches - idle.launches == 10
    assert after.commands - idle.commands >= 12
    assert after.bytes_to_device - idle.bytes_to_device == 4 * count
    assert after.bytes_from_device - idle.bytes_from_device == 4 * count
    for name in ("device_ticks", "busy_ticks", "vector_ticks", "memory_ticks", "copy_ticks"):
        assert getattr(after, name) > getattr(idle, name), name
    assert 0 < after.temperature_celsius < 100
    assert 0 < after.power_watts < 1000
