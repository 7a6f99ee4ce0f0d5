"""What the devices say at one time, and that as plain data."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from emu_runtime import figures
from emu_runtime.bounded import Call, LateError
from emu_runtime.device import (
    Device,
    PowerMode,
    Properties,
    Telemetry,
    device_count,
    why_no_device,
)
from emu_runtime.errors import DeviceLostError, EmuError, WaitTimeoutError

PATIENCE_SECONDS = 5
UNANSWERED = f"the device process did not answer within {PATIENCE_SECONDS} s"
STOPPED = "It may be stopped: look at its state and log, let it go on or start it anew"

_lock = threading.Lock()
_calls: dict[int, Call[Reading]] = {}  # the last of each device


@dataclass(frozen=True)
class Reading:
    """One device at one time, or why it did not answer."""

    index: int
    properties: Properties | None
    telemetry: Telemetry | None
    error: EmuError | None
    modes: Sequence[PowerMode] = ()

    @property
    def emud(self) -> tuple[int, int] | None:
        """Pid and start: emuds of two containers, or of before a restart, may have one pid."""
        if self.properties is None or self.telemetry is None:
            return None
        return self.properties.emud_pid, self.telemetry.emud_start_ns

    @property
    def mode(self) -> str:
        """Name of the power mode that is set."""
        if self.telemetry is None:
            return ""
        number = self.telemetry.power_mode
        return self.modes[number].name if number < len(self.modes) else str(number)


def _read(index: int) -> Reading:
    """Opens a device again that was lost: its emud may have been started anew."""
    try:
        try:
            return _ask(index)
        except DeviceLostError as error:
            if any(not call.is_over() for other, call in list(_calls.items()) if other != index):
                return Reading(index, None, None, error)  # a reset waits for calls that are out
            Device(index).reset()
            return _ask(index)
    except EmuError as error:
        return Reading(index, None, None, error)


def _count() -> int:
    if count := device_count():
        return count
    raise why_no_device() or EmuError("no device")


def _ask(index: int) -> Reading:
    device = Device(index)
    return Reading(
        index, device.properties(), device.telemetry(), None, tuple(device.power_modes())
    )


def read_all() -> list[Reading]:
    """Waits PATIENCE_SECONDS at most. Raises EmuError with the reason when there is no device."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        count = Call(_count).result(PATIENCE_SECONDS)
    except LateError as late:
        raise WaitTimeoutError(UNANSWERED, mend=STOPPED) from late
    with _lock:  # one that has not answered is not asked again
        for index in range(count):
            if index not in _calls or _calls[index].is_over():
                _calls[index] = Call(partial(_read, index))
        calls = [_calls[index] for index in range(count)]
    readings = []
    for index, call in enumerate(calls):
        try:
            readings.append(call.result(deadline - time.monotonic()))
        except LateError:
            error = WaitTimeoutError(UNANSWERED, mend=STOPPED)
            readings.append(Reading(index, None, None, error))
    return readings


def as_data(readings: Sequence[Reading]) -> dict[str, object]:
    return {
        "devices": [
            {
                "index": reading.index,
                "properties": _fields(reading.properties),
                "telemetry": _fields(reading.telemetry),
                "power_modes": [dataclasses.asdict(mode) for mode in reading.modes],
                "figures": _figures(reading),
                "error": error_data(reading.error) if reading.error else None,
            }
            for reading in readings
        ]
    }


def _fields(record: Properties | Telemetry | None) -> dict[str, object] | None:
    return None if record is None else dataclasses.asdict(record)


def _figures(reading: Reading) -> dict[str, object] | None:
    """What the telemetry says in words, shares and rates, since emud started."""
    properties, telemetry = reading.properties, reading.telemetry
    if properties is None or telemetry is None:
        return None
    return {
        "power_mode": reading.mode,
        "throttle": figures.throttle_name(telemetry),
        "memory_pressure": figures.pressure_name(telemetry),
        "shares": figures.shares(telemetry),
        "bytes_per_second": figures.bandwidths(telemetry, properties.clock_hertz),
    }


def error_data(error: EmuError) -> dict[str, object]:
    return {"status": error.status, "cause": error.cause, "mend": error.mend}
