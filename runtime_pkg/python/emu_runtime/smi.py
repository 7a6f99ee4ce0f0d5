"""emu-smi: what the devices are and what they do.

    emu-smi [--json] [--watch SECONDS]

Exit status: 0 when each device answered, 1 when there is none or one did not answer (the reason is
on standard error), 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from emu_runtime.device import Device, Properties, Telemetry, device_count, why_no_device
from emu_runtime.errors import EmuError
from emu_runtime.library import shutdown


@dataclass(frozen=True)
class Reading:
    """One device at one time, or why it did not answer."""

    index: int
    properties: Properties | None
    telemetry: Telemetry | None
    error: EmuError | None


def read(index: int) -> Reading:
    try:
        device = Device(index)
        return Reading(index, device.properties(), device.telemetry(), None)
    except EmuError as error:
        return Reading(index, None, None, error)


def read_all() -> list[Reading]:
    """Raises EmuError with the reason when there is no device."""
    count = device_count()
    if count == 0:
        raise why_no_device() or EmuError("no device")
    return [read(index) for index in range(count)]


def busy(now: Telemetry, before: Telemetry | None) -> float | None:
    """Share of device time with work, since `before` or since emud started; None without time."""
    ticks = now.device_ticks - (before.device_ticks if before else 0)
    work = now.busy_ticks - (before.busy_ticks if before else 0)
    return 100.0 * work / ticks if ticks > 0 else None


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


COLUMNS = ("device", "name", "firmware", "driver", "memory", "busy", "clock", "power", "temp")


def row(reading: Reading, before: Telemetry | None) -> tuple[str, ...]:
    properties, telemetry = reading.properties, reading.telemetry
    if properties is None or telemetry is None:
        return (f"emu:{reading.index}", "does not answer", *[""] * (len(COLUMNS) - 2))
    share = busy(telemetry, before)
    memory = f"{_mebibytes(telemetry.memory_used_bytes)} of {_mebibytes(properties.memory_bytes)}"
    return (
        f"emu:{reading.index}",
        f"{properties.name} {properties.stepping}",
        properties.firmware,
        properties.driver,
        memory,
        "-" if share is None else f"{share:.0f} %",
        f"{telemetry.clock_hertz / 1e6:,.0f} MHz",
        f"{telemetry.power_watts:.1f} W",
        f"{telemetry.temperature_celsius:.1f} C",
    )


def table(readings: Sequence[Reading], before: dict[int, Telemetry]) -> str:
    rows = [COLUMNS, *(row(reading, before.get(reading.index)) for reading in readings)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    for reading in readings:
        lines += _notes(reading)
    return "\n".join(lines)


def _notes(reading: Reading) -> list[str]:
    place = f"emu:{reading.index}"
    if reading.error is not None:
        return [f"{place}: {reading.error}"]
    if reading.properties is None or reading.telemetry is None:
        return []
    node = reading.properties.node
    kind = "private to this process" if reading.properties.is_private else f"node {node}"
    telemetry = reading.telemetry
    return [
        f"{place}: {kind}, emud pid {reading.properties.emud_pid}, "
        f"{telemetry.contexts} contexts, {telemetry.queues} queues, {telemetry.faults} faults, "
        f"ECC {telemetry.ecc_corrected} corrected / {telemetry.ecc_uncorrected} uncorrected"
    ]


def as_data(readings: Sequence[Reading]) -> dict[str, object]:
    return {
        "devices": [
            {
                "index": reading.index,
                "properties": _fields(reading.properties),
                "telemetry": _fields(reading.telemetry),
                "error": error_data(reading.error) if reading.error else None,
            }
            for reading in readings
        ]
    }


def _fields(record: Properties | Telemetry | None) -> dict[str, object] | None:
    return None if record is None else dataclasses.asdict(record)


def error_data(error: EmuError) -> dict[str, object]:
    return {"status": error.status, "cause": error.cause, "mend": error.mend}


def _seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return value


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emu-smi", description="Devices and what they do.")
    parser.add_argument("--json", action="store_true", help="one JSON object a reading")
    parser.add_argument("--watch", type=_seconds, metavar="SECONDS", help="read again and again")
    return parser.parse_args(arguments)


def _show(options: argparse.Namespace, before: dict[int, Telemetry]) -> bool:
    """Print one reading; True when each device answered. `before` becomes this reading."""
    readings = read_all()
    if options.json:
        print(json.dumps(as_data(readings)), flush=True)
    else:
        print(table(readings, before), flush=True)
    before.update({r.index: r.telemetry for r in readings if r.telemetry is not None})
    return all(reading.error is None for reading in readings)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    before: dict[int, Telemetry] = {}
    try:
        answered = _show(options, before)
        while options.watch is not None:
            time.sleep(options.watch)
            answered = _show(options, before)
        shutdown()
    except EmuError as error:
        if options.json:
            print(json.dumps({"devices": [], "error": error_data(error)}))
        print(f"emu-smi: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if answered else 1
