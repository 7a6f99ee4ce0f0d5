"""emu-trace: run a Python program and write down what the device did for it, as a timeline.

    emu-trace [-o FILE] [--json] program.py [arguments]
    emu-trace [-o FILE] [--json] -m module [arguments]

FILE (default: trace.json) is a Chrome trace for Perfetto or chrome://tracing; with --json the
records as they are. The program runs in this process and should not read activity records itself.
Exit status: the program's own; 2 for a wrong command line or a file that cannot be written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from emu_runtime import timeline
from emu_runtime.activity import Activity, enable_activity, read_activity
from emu_runtime.device import Device, device_count
from emu_runtime.errors import EmuError

READ_SECONDS = 0.05  # the device keeps 65,536 records; a gap would look like idleness


class Recorder:
    """Collects the records of this process, in a thread of its own, until the block ends."""

    def __init__(self) -> None:
        self.records: list[Activity] = []
        self.dropped = 0
        self.hertz: dict[int, int] = {}
        self._over = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        enable_activity(True)
        thread = threading.Thread(target=self._collect, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._finish()

    def _collect(self) -> None:
        while not self._over.wait(READ_SECONDS):
            with contextlib.suppress(EmuError):  # one device is gone, or all are for now
                self._read()

    def _read(self) -> None:
        records, dropped = read_activity()
        for device in {record.device for record in records} - self.hertz.keys():
            with contextlib.suppress(EmuError):  # lost: its records have no clock to be placed by
                self.hertz[device] = Device(device).properties().clock_hertz
        placed = [record for record in records if record.device in self.hertz]
        self.records += placed
        self.dropped += dropped + len(records) - len(placed)

    def _finish(self) -> None:
        with contextlib.suppress(EmuError):
            for device in range(device_count()):
                with contextlib.suppress(EmuError):  # lost to a fault, which is in the records
                    Device(device).synchronize()
            self._read()
            enable_activity(False)


def _run(program: Sequence[str], module: bool) -> int:
    """Run it as Python would, and give the exit status that Python would."""
    name, *_ = program
    sys.argv = list(program)
    sys.path[0] = str(Path.cwd() if module else Path(name).resolve().parent)
    try:
        if module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:  # CancelledError too: what was recorded is still written
        traceback.print_exc()
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="emu-trace", description="Run a Python program and write a timeline of the device."
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("trace.json"), metavar="FILE")
    parser.add_argument("--json", action="store_true", help="the records as they are")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENTS]")
    options = parser.parse_args(arguments)
    if not options.program:
        parser.error("expected a program to run")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    recorder = Recorder()
    try:
        with options.output.open(
            "w", encoding="utf-8"
        ) as file:  # before the program: it may be long
            with recorder.running():
                status = _run(options.program, options.module)
            records = sorted(recorder.records, key=lambda record: record.start_ns)
            if options.json:
                data: dict[str, object] = {
                    "records": [asdict(record) for record in records],
                    "dropped": recorder.dropped,
                    "clock_hertz": recorder.hertz,
                }
            else:
                data = timeline.chrome(records, recorder.hertz, recorder.dropped)
            json.dump(data, file)
    except OSError as error:
        print(f"emu-trace: {options.output}: {error.strerror}", file=sys.stderr)
        return 2
    except EmuError as error:
        print(f"emu-trace: {error}", file=sys.stderr)
        return 2
    lost = f", {recorder.dropped} more were dropped" if recorder.dropped else ""
    print(f"emu-trace: {len(records)} records in {options.output}{lost}", file=sys.stderr)
    return status
