"""emu-trace: run a Python program and write down what the device did for it, as a timeline.

    emu-trace [-o FILE] [--json] program.py [arguments]
    emu-trace [-o FILE] [--json] -m module [arguments]

FILE (default: trace.json) is a Chrome trace for Perfetto or chrome://tracing; with --json the
records as they are. The program runs in this process, and FILE is written when its threads and
exit handlers are done. A process that it forks has no trace.
Exit status: the program's own; 2 for a wrong command line, a program or device that cannot be
opened, or a file that cannot be written.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from emu_runtime import program, timeline
from emu_runtime.activity import Activity, Recording
from emu_runtime.device import Device, device_count
from emu_runtime.errors import EmuError

READ_SECONDS = 0.05  # the device keeps 65,536 records; a gap would look like idleness


class Recorder:
    """Collects the records of this process, in a thread of its own, from `start` to `stop`."""

    def __init__(self) -> None:
        self.records: list[Activity] = []
        self.dropped = 0
        self.hertz: dict[int, int] = {}
        self._recording = Recording()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)

    def start(self) -> None:
        self._recording.start()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        with contextlib.suppress(EmuError):  # it was shut down: what was recorded is there
            for device in range(device_count()):
                with contextlib.suppress(EmuError):  # lost to a fault, which is in the records
                    Device(device).synchronize()
        with contextlib.suppress(EmuError):
            self._read()
        with contextlib.suppress(EmuError):
            self._recording.stop()

    def _collect(self) -> None:
        while not self._over.wait(READ_SECONDS):
            with contextlib.suppress(EmuError):  # one device is gone, or all are for now
                self._read()

    def _read(self) -> None:
        records, dropped = self._recording.read()
        for device in {record.device for record in records} - self.hertz.keys():
            with contextlib.suppress(EmuError):  # lost: its records have no clock to be placed by
                self.hertz[device] = Device(device).properties().clock_hertz
        placed = [record for record in records if record.device in self.hertz]
        self.records += placed
        self.dropped += dropped + len(records) - len(placed)


class Output:
    """A file that is there when it is whole: until then, an older one stays as it is.

    What is no regular file (a pipe, a terminal) is opened at once. Raises OSError, at the
    beginning too: what comes before the writing may take long.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.realpath(path))  # a link stays one; the program may change folder
        self._special = None
        if path.exists() and not path.is_file():
            self._special = path.open("w", encoding="utf-8")
        else:
            tempfile.TemporaryFile(dir=self._path.parent).close()

    def write(self, data: object) -> None:
        if self._special:
            with self._special as file:
                json.dump(data, file)
            return
        partial = self._path.with_name(f".emu-trace-{secrets.token_hex(8)}")
        try:
            with partial.open("x", encoding="utf-8") as file:
                json.dump(data, file)
            partial.replace(self._path)
        finally:
            partial.unlink(missing_ok=True)


def _end(owner: int, recorder: Recorder, output: Output, options: argparse.Namespace) -> None:
    """Registered first, so the last of the exit handlers: the program is over."""
    if os.getpid() != owner:  # forked by the program
        return
    recorder.stop()
    records = sorted(recorder.records, key=lambda record: record.start_ns)
    if options.json:
        data: dict[str, object] = {
            "records": [asdict(record) for record in records],
            "dropped": recorder.dropped,
            "clock_hertz": recorder.hertz,
        }
    else:
        data = timeline.chrome(records, recorder.hertz, recorder.dropped)
    try:
        output.write(data)
    except OSError as error:
        print(f"emu-trace: {options.output}: {error.strerror}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(2)  # an exit handler cannot change the status otherwise
    lost = f", {recorder.dropped} more were dropped" if recorder.dropped else ""
    print(f"emu-trace: {len(records)} records in {options.output}{lost}", file=sys.stderr)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="emu-trace", description="Run a Python program and write a timeline of the device."
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("trace.json"), metavar="FILE")
    parser.add_argument("--json", action="store_true", help="the records as they are")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENTS]")
    options = parser.parse_args(arguments)
    if options.program[:1] == ["--"]:
        del options.program[0]
    if not options.program:
        parser.error("expected a program to run")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """What ends the program leaves this function too; the trace is written when Python exits."""
    options = _parse(arguments)
    name = options.program[0]
    try:
        text = None if options.module else program.source(name)
    except OSError as error:
        print(f"emu-trace: the program {name}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        output = Output(options.output)
    except OSError as error:
        print(f"emu-trace: {options.output}: {error.strerror}", file=sys.stderr)
        return 2
    recorder = Recorder()
    try:
        recorder.start()
    except EmuError as error:
        print(f"emu-trace: {error}", file=sys.stderr)
        return 2
    atexit.register(_end, os.getpid(), recorder, output, options)
    program.run(options.program, text, module=options.module)
    return 0
