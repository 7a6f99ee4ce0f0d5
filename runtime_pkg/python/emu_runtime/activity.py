"""Activity records: what each command was, when it ran on the device's clock, and for whom."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
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
    operator: str = ""  # what `correlation` stands for, where a library tells by `name_operators`

    @property
    def ticks(self) -> int:
        return self.end_ticks - self.start_ticks


class Recording:
    """The commands of all devices of this process that finish between `start` and `stop`.

    Any number of recordings run at a time, and each is given all records of its own time. A process
    that forks keeps them: in the child none runs.
    """

    def __init__(self) -> None:
        self._records: list[Activity] = []
        self._dropped = 0

    def start(self) -> None:
        with _lock:
            try:
                if not _running:
                    _switch(True)
                _share()  # what was before is the others', or nobody's
            except EmuError:
                if not _running:
                    with contextlib.suppress(EmuError):
                        _switch(False)
                raise
            _running.append(self)

    def read(self) -> tuple[list[Activity], int]:
        """What was recorded and not yet read, oldest first, and how many records were dropped.

        Raises EmuError for a device that is lost only when the others have no more records.
        """
        with _lock:
            try:
                _share()
            except EmuError:
                if not self._records and not self._dropped:
                    raise
            found = self._records, self._dropped
            self._records, self._dropped = [], 0
            return found

    def stop(self) -> None:
        with _lock:
            if self in _running:
                _running.remove(self)
                if not _running:
                    _switch(False)


@dataclass(frozen=True)
class _Operators:
    record: Callable[[bool], None]
    name: Callable[[int], str]


_lock = threading.Lock()
_running: list[Recording] = []
_operators: list[_Operators] = []


def _forget() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that the child does not have may have held it
    _running.clear()


os.register_at_fork(after_in_child=_forget)


def name_operators(record: Callable[[bool], None], name: Callable[[int], str]) -> None:
    """For a library whose operators submit commands: how these get its operators' names.

    `record(True)` asks it for a correlation id of each operator, `record(False)` says that nobody
    records any more. `name` gives the operator of an id, "" for one that is not the library's.
    """
    with _lock:
        _operators.append(_Operators(record, name))
        if _running:
            record(True)


def _switch(on: bool) -> None:
    for operators in _operators:
        operators.record(on)
    call("activity_enable", int(on))


def _share() -> None:
    """Give each running recording what the devices have."""
    records, dropped = _read()
    for recording in _running:
        recording._records += records
        recording._dropped += dropped


def _read() -> tuple[list[Activity], int]:
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
        operator=_operator(raw.correlation),
    )


def _operator(number: int) -> str:
    return next((name for each in _operators if (name := each.name(number))), "")


@contextlib.contextmanager
def record_activity(*devices: int) -> Iterator[list[Activity]]:
    """Fills the list that it gives when the block ends and the devices (default: 0) are done.

    Waits for them at both ends, so that what was submitted before is not in it. Dropped records
    raise RuntimeError, since a gap would look like idleness.
    """
    _wait_for(devices or (0,))
    recording = Recording()
    recording.start()
    records: list[Activity] = []
    try:
        yield records
        _wait_for(devices or (0,))
        found, lost = recording.read()
    finally:
        recording.stop()
    if lost:
        raise RuntimeError(f"{lost} activity records did not fit: read them more often")
    records += found


def _wait_for(devices: tuple[int, ...]) -> None:
    for device in devices:
        call("device_synchronize", device)


@contextlib.contextmanager
def correlation(number: int) -> Iterator[None]:
    """Commands that this thread submits inside carry the number; from 2**32 on are operators'."""
    api = table()
    api.correlation_push(number)
    try:
        yield
    finally:
        api.correlation_pop()
