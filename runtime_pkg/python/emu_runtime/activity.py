"""Activity records: what each command was, when it ran on the device's clock, and for whom."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref
from dataclasses import dataclass

from emu_runtime import interface
from emu_runtime.errors import EmuError
from emu_runtime.library import call, table

_BATCH = 1024


class ActivityKind(interface.Number):
    LAUNCH = 1
    COPY_TO_DEVICE = 2
    COPY_FROM_DEVICE = 3
    COPY_ON_DEVICE = 4
    FILL = 5
    WAIT = 6
    FAULT = 7
    FIRMWARE = 8
    TIMESTAMP = 9
    SIGNAL = 10
    COPY_PEER = 11


@dataclass(frozen=True)
class Activity:
    """One finished command. Ticks: device clock; nanoseconds: the host's CLOCK_MONOTONIC."""

    kind: ActivityKind
    device: int
    status: int
    stream: int
    command: int
    correlation: int
    start_ticks: int
    end_ticks: int
    start_ns: int
    end_ns: int
    bytes: int
    grid: tuple[int, int, int]
    program: str

    @property
    def ticks(self) -> int:
        return self.end_ticks - self.start_ticks


def enable_activity(on: bool) -> None:
    """Record commands of all devices of this process from now on, or stop."""
    call("activity_enable", int(on))


def read_activity() -> tuple[list[Activity], int]:
    """What was recorded and not yet read, oldest first, and how many records were dropped.

    Raises EmuError for a device that is lost only when the others have no more records.
    """
    buffer = (interface.CActivity * _BATCH)()
    records: list[Activity] = []
    lost = 0
    while True:
        count, dropped = ctypes.c_size_t(), ctypes.c_uint64()
        try:
            call("activity_read", buffer, _BATCH, byref(count), byref(dropped))
        except EmuError:
            if records or lost:
                return records, lost
            raise
        records += [_record(buffer[index]) for index in range(count.value)]
        lost += dropped.value
        if count.value < _BATCH:
            return records, lost


def _record(raw: interface.CActivity) -> Activity:
    return Activity(
        kind=ActivityKind(raw.kind),
        device=raw.device,
        status=raw.status,
        stream=raw.stream,
        command=raw.command,
        correlation=raw.correlation,
        start_ticks=raw.start_ticks,
        end_ticks=raw.end_ticks,
        start_ns=raw.start_ns,
        end_ns=raw.end_ns,
        bytes=raw.bytes,
        grid=(raw.grid[0], raw.grid[1], raw.grid[2]),
        program=raw.program.decode(errors="replace"),
    )


@contextlib.contextmanager
def record_activity(*devices: int) -> Iterator[list[Activity]]:
    """Fills the list that it gives when the block ends and the devices (default: 0) are done.

    Records of before are thrown away. Dropped ones raise RuntimeError, since a gap would look
    like idleness.
    """
    enable_activity(True)
    read_activity()
    records: list[Activity] = []
    try:
        yield records
        for device in devices or (0,):
            call("device_synchronize", device)
        found, lost = read_activity()
    finally:
        enable_activity(False)
    if lost:
        raise RuntimeError(f"{lost} activity records did not fit: read them more often")
    records += found


@contextlib.contextmanager
def correlation(number: int) -> Iterator[None]:
    """Commands that this thread submits inside carry the number."""
    api = table()
    api.correlation_push(number)
    try:
        yield
    finally:
        api.correlation_pop()
