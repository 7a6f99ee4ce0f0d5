"""Readings of a device that is not there, for what is made of them."""

from __future__ import annotations

from dataclasses import fields

from emu_runtime.device import PowerMode, Properties, Telemetry

PROPERTIES = Properties(
    name="Emulated accelerator", uuid="u", stepping="A0", firmware="1.2.3", driver="0.1.0",
    node="/dev/emu/emu0", is_private=False, emud_pid=42, emud_index=0, interface_version=1000,
    cores=8, max_lanes=4096, memory_bytes=8 * 2**30, clock_hertz=10**9,
)  # fmt: skip
MODES = tuple(
    PowerMode(index, name, 10**9, 20.0, 120.0)
    for index, name in enumerate(("nominal", "eco", "boost"))
)


def telemetry(**given: float) -> Telemetry:
    """All else is 0."""
    values = {field.name: 0 for field in fields(Telemetry)}
    return Telemetry(**{**values, **given})  # type: ignore[arg-type]
