"""emu-smi: what the devices are and what they do.

    emu-smi [--json | --prometheus] [--watch SECONDS] [--set-power-mode NAME]
    emu-smi --topology [--json]
    emu-smi --serve [ADDRESS:]PORT

`--watch` draws the table over the one before on a terminal, and prints one after another elsewhere;
its shares and rates are of the time between two readings, else since emud started. `--serve`
answers GET /metrics; without an address it listens on 127.0.0.1. Both go on over a restart of emud.

Exit status: 0 when each device answered; 1 when there is none or one did not answer, the power mode
may not be set or the address is taken (the reason is on standard error); 2 for a wrong command
line. A device process that does not answer within 5 seconds is not waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from emu_runtime import bounded, figures, prometheus, topology
from emu_runtime.device import Device, Telemetry
from emu_runtime.errors import EmuError, WaitTimeoutError
from emu_runtime.library import shutdown
from emu_runtime.reading import (
    PATIENCE_SECONDS,
    STOPPED,
    UNANSWERED,
    Reading,
    as_data,
    error_data,
    read_all,
)

_Answer = TypeVar("_Answer")
BAR_CELLS = 24
LONGEST_SECONDS = 86400
LETTERS = {
    "matrix": "M", "vector": "V", "memory": "R", "control": "L", "copy": "C", "waiting": "w",
    "idle": ".",
}  # fmt: skip


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _rate(bytes_per_second: float | None) -> str:
    return "-" if bytes_per_second is None else f"{bytes_per_second / 1e9:.1f} GB/s"


COLUMNS = ("device", "name", "mode", "memory", "busy", "clock", "throttle", "power", "temp")


def row(reading: Reading, before: Telemetry | None) -> tuple[str, ...]:
    properties, telemetry = reading.properties, reading.telemetry
    if properties is None or telemetry is None:
        return (f"emu:{reading.index}", "does not answer", *[""] * (len(COLUMNS) - 2))
    spent = figures.shares(telemetry, before)
    memory = f"{_mebibytes(telemetry.memory_used_bytes)} of {_mebibytes(properties.memory_bytes)}"
    return (
        f"emu:{reading.index}",
        f"{properties.name} {properties.stepping}",
        reading.mode,
        memory,
        "-" if spent is None else f"{100 * (1 - spent['idle'] - spent['waiting']):.0f} %",
        f"{telemetry.clock_hertz / 1e6:,.0f} MHz",
        figures.throttle_name(telemetry),
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
        lines += [f"emu:{reading.index}: {note}" for note in _notes(reading, before)]
    return "\n".join(lines)


def bar(spent: dict[str, float]) -> str:
    """The shares as letters, each cut where its share ends, so that all cells are used."""
    text, end = "", 0.0
    for kind, letter in LETTERS.items():
        end += spent[kind]
        text += letter * (round(end * BAR_CELLS) - len(text))
    return text


def _notes(reading: Reading, earlier: dict[int, Telemetry]) -> list[str]:
    if reading.error is not None:
        return [str(reading.error)]
    properties, telemetry = reading.properties, reading.telemetry
    if properties is None or telemetry is None:
        return []
    before = earlier.get(reading.index)
    kind = "private to this process" if properties.is_private else f"node {properties.node}"
    notes = [
        f"{kind}, emud pid {properties.emud_pid}, firmware {properties.firmware}, "
        f"driver {properties.driver}",
        f"{telemetry.contexts} contexts, {telemetry.queues} queues, {telemetry.faults} faults, "
        f"ECC {telemetry.ecc_corrected} corrected / {telemetry.ecc_uncorrected} uncorrected, "
        f"memory pressure {figures.pressure_name(telemetry)}",
    ]
    if (spent := figures.shares(telemetry, before)) is not None:
        parts = ", ".join(f"{kind} {100 * share:.0f}" for kind, share in spent.items())
        notes.append(f"|{bar(spent)}| {parts} %")
        rates = figures.bandwidths(telemetry, properties.clock_hertz, before)
        notes.append(", ".join(f"{path.replace('_', ' ')} {_rate(rates[path])}" for path in rates))
    delays = figures.mean_delays(telemetry, properties.clock_hertz, before)
    if delays is not None:
        most = telemetry.queue_delay_most_ticks / properties.clock_hertz
        notes.append(
            f"queued {1e6 * delays[0]:,.1f} us in the mean, {1e6 * most:,.1f} us at most "
            f"(on the host {1e6 * delays[1]:,.1f} and {telemetry.queue_delay_most_ns / 1e3:,.1f})"
        )
    return notes


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and up to {LONGEST_SECONDS}, got {text}"
        )
    return value


def _place(text: str) -> tuple[str, int]:
    """[ADDRESS:]PORT; an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"expected an IPv6 address in brackets, got {text}")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"expected ADDRESS:PORT, got {text}")
    return host or "127.0.0.1", int(port)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emu-smi", description="Devices and what they do.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a reading")
    form.add_argument("--prometheus", action="store_true", help="metrics as Prometheus takes them")
    form.add_argument(
        "--serve", type=_place, metavar="[ADDRESS:]PORT", help="serve /metrics, on 127.0.0.1"
    )
    parser.add_argument("--watch", type=_seconds, metavar="SECONDS", help="read again and again")
    parser.add_argument("--topology", action="store_true", help="the links between devices instead")
    parser.add_argument(
        "--set-power-mode", metavar="NAME", help="of all devices, before they are read"
    )
    options = parser.parse_args(arguments)
    if options.serve and options.watch is not None:
        parser.error("expected --watch or --serve, got both")
    if options.topology and (options.prometheus or options.serve or options.watch is not None):
        parser.error("expected --topology alone or with --json")
    return options


def read_again() -> list[Reading]:
    """As `read_all`; once a node answered, a private device is no answer in its place."""
    readings = read_all()
    if any(reading.properties and not reading.properties.is_private for reading in readings):
        os.environ["EMU_PRIVATE"] = "0"
    return readings


class Screen:
    """Where tables are written: over the one before on a terminal, else one after another."""

    def __init__(self) -> None:
        self.lines = 0  # of the last table, that are to be drawn over

    def show(self, text: str) -> None:
        if not sys.stdout.isatty():
            return print(text, flush=True)
        size = shutil.get_terminal_size()
        # What does not fit would wrap or scroll, and the way back would be another.
        lines = [line[: size.columns] for line in text.splitlines()][: size.lines - 1]
        back = f"\x1b[{self.lines}F\x1b[J" if self.lines else ""
        print(back + "\n".join(lines), flush=True)
        self.lines = len(lines)


def comparable(last: Sequence[Reading], now: Sequence[Reading]) -> dict[int, Telemetry]:
    """What devices said at the last reading, by index: those of which the same emud answers now.

    Another one counts from its own start, and the difference would be of nothing.
    """
    emud = {reading.index: reading.emud for reading in now}
    return {
        reading.index: reading.telemetry
        for reading in last
        if reading.telemetry and emud.get(reading.index) == reading.emud
    }


def _bounded(ask: Callable[[], _Answer]) -> _Answer:
    try:
        return bounded.Call(ask).result(PATIENCE_SECONDS)
    except bounded.LateError as late:
        raise WaitTimeoutError(UNANSWERED, mend=STOPPED) from late


def _serve(host: str, port: int) -> bool:
    try:
        prometheus.serve(host, port, read_again)
    except OSError as error:
        print(f"emu-smi: --serve: {error}", file=sys.stderr)
    return False


def _run(options: argparse.Namespace) -> bool:
    """True when each device answered the last reading."""
    if options.set_power_mode is not None:
        for reading in read_all():
            _bounded(partial(Device(reading.index).set_power_mode, options.set_power_mode))
    if options.topology:
        readings = read_all()
        found = _bounded(partial(topology.links, readings))
        text = topology.table(readings, found)
        print(json.dumps(topology.as_data(found)) if options.json else text, flush=True)
        for reading in readings:
            if reading.error is not None:
                print(f"emu-smi: emu:{reading.index}: {reading.error}", file=sys.stderr)
        return all(reading.error is None for reading in readings)
    if options.serve:
        return _serve(*options.serve)
    screen, before = Screen(), dict[int, Telemetry]()
    readings = read_again()
    while True:
        if options.json:
            print(json.dumps(as_data(readings)), flush=True)
        elif options.prometheus:
            print(prometheus.exposition(readings), end="", flush=True)
        elif options.watch is None:
            print(table(readings, before), flush=True)
        else:
            screen.show(table(readings, before))
        if options.watch is None:
            return all(reading.error is None for reading in readings)
        last = readings
        time.sleep(options.watch)
        try:
            readings = read_again()
        except EmuError as error:  # emud may come back
            readings = [Reading(reading.index, None, None, error) for reading in last]
        before = comparable(last, readings)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)

    def work() -> int:
        try:
            answered = _run(options)
            if answered:  # else a call may be out, which a shutdown waits for
                _bounded(shutdown)
        except EmuError as error:
            if options.json:
                print(json.dumps({"devices": [], "error": error_data(error)}))
            print(f"emu-smi: {error}", file=sys.stderr)
            return 1
        return 0 if answered else 1

    return bounded.program("emu-smi", work)
