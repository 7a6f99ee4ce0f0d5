"""The device says who it is, which firmware it runs, and what it has been doing."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
from child import run_python
from gate0_health import programs

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.serving import Node


# Of the device as a user's process gets it: with a node where there is one, else private.
ASK = """
import dataclasses, json, emu_runtime
print(json.dumps(dataclasses.asdict(emu_runtime.Device(0).properties())))
"""


def told_properties(env: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    done = run_python(ASK, env=env)
    assert done.status == 0, done.told
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.check("gate0.identity.read", obligations=["B2", "G0"], kind="focused test")
def test_identity(node: Node, detail: Callable[..., None]) -> None:
    """The device has no identity, or another one for each process that asks."""
    properties = told_properties()
    detail(properties)
    assert properties["name"]
    assert str(uuid.UUID(properties["uuid"])) == properties["uuid"].lower()
    assert re.fullmatch(r"[A-Z][0-9]", properties["stepping"])
    assert min(properties[name] for name in ("cores", "memory_bytes", "clock_hertz")) > 0
    first, second = (told_properties(node.env)["uuid"] for _ in range(2))
    assert uuid.UUID(first) == uuid.UUID(second)


@pytest.mark.check("gate0.firmware.version", obligations=["B2", "G0"], kind="focused test")
def test_firmware(detail: Callable[..., None]) -> None:
    """The firmware does not say which it is, or the device process is not the installed one."""
    properties = told_properties()
    firmware, driver = properties["firmware"], properties["driver"]
    installed = metadata.version("emu-driver-shim")
    detail(firmware=firmware, driver=driver, installed=installed)
    assert re.fullmatch(r"\d+\.\d+\.\d+", firmware)
    assert driver == installed


@pytest.mark.check("gate0.telemetry.advances", obligations=["G0", "O3"], kind="focused test")
def test_telemetry(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Counters stand still while the device works, or move while it does nothing."""
    import emu_runtime

    count = 100_000
    x, y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    runtime.fill(x, 0, 4 * count)
    runtime.fill(y, 0, 4 * count)
    module = emu_runtime.Module(runtime.index, programs.SCALE_ADD)
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
