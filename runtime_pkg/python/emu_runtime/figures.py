"""What two readings of a device say between them: shares of its time, rates, delays.

Pure functions of `Telemetry`; without a reading before, a figure is since emud started. Device
ticks are turned into seconds with `hertz`, the `clock_hertz` of the device's properties. None where
there is nothing to divide by.
"""

from __future__ import annotations

from emu_runtime.device import MemoryPressure, Telemetry, Throttle

KINDS = ("matrix", "vector", "memory", "control", "copy", "waiting", "idle")
PATHS = ("to_device", "from_device", "on_device", "programs")


def shares(now: Telemetry, before: Telemetry | None = None) -> dict[str, float] | None:
    """What the compute engine spent its time on: of each of KINDS from 0 to 1, together 1.

    Work that depends on nothing is placed where the engine stands, which may be behind the device
    clock: between two readings it can do more than the clock moved, and is then idle for none.
    """
    spent = {kind: _grown(now, before, f"spent_{kind}_ticks") for kind in KINDS[:-1]}
    done = sum(spent.values())
    whole = max(_grown(now, before, "device_ticks"), done)
    if whole <= 0:
        return None
    return {**{kind: ticks / whole for kind, ticks in spent.items()}, "idle": 1 - done / whole}


def bandwidths(
    now: Telemetry, hertz: int, before: Telemetry | None = None
) -> dict[str, float | None]:
    """Bytes a second along each of PATHS: of copies over the time that copies that way took, of
    programs over the time of launches."""

    def rate(bytes_: str, *ticks: str) -> float | None:
        time = sum(_grown(now, before, name) for name in ticks) / hertz
        return _grown(now, before, bytes_) / time if time > 0 else None

    copies = {path: rate(f"bytes_{path}", f"{path}_ticks") for path in PATHS[:-1]}
    launches = [f"spent_{kind}_ticks" for kind in ("matrix", "vector", "memory", "control")]
    return {**copies, "programs": rate("program_bytes", *launches)}


def mean_delays(
    now: Telemetry, hertz: int, before: Telemetry | None = None
) -> tuple[float, float] | None:
    """Seconds that a command was queued in the mean: on the device clock, and on the host's."""
    commands = _grown(now, before, "queued_commands")
    if commands <= 0:
        return None
    device = _grown(now, before, "queue_delay_ticks") / hertz
    return device / commands, _grown(now, before, "queue_delay_ns") / 1e9 / commands


def throttle_name(telemetry: Telemetry) -> str:
    return Throttle(telemetry.throttle).name.lower()


def pressure_name(telemetry: Telemetry) -> str:
    return MemoryPressure(telemetry.memory_pressure).name.lower()


def _grown(now: Telemetry, before: Telemetry | None, field: str) -> int:
    return int(getattr(now, field)) - (int(getattr(before, field)) if before else 0)
