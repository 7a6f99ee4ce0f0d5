"""A client that an injected fault strikes, and how it goes on: a program of its own.

    victim.py KIND COMMAND SCOPE AFFINE

COMMAND of its launches is struck, counted from 1; then it recovers at SCOPE and works again, which
may fail. Tells what it found as JSON.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from typing import Any

import emu_runtime
from emu_driver_shim.driver import ANY_QUEUE, CFault
from emu_driver_shim.driver import Device as Driver
from emu_driver_shim.faults import CommandKind, FaultKind
from emu_driver_shim.firmware import EventKind, event_data
from emu_runtime import errors

PAGE = 65536
BEHIND = 3  # launches after the one that is struck
ATTEMPTS = 200  # to find the engine asleep


class Work:
    """A stream, and two words on pages of their own: x becomes 3 x + 1 with each launch."""

    def __init__(self, affine: str) -> None:
        self.device = emu_runtime.Device(0)
        self.affine = affine
        self.make()

    def make(self) -> None:
        start = self.device.alloc(4 * PAGE)
        self.words = [(start // PAGE + page) * PAGE + 64 for page in (1, 2)]
        self.expected = [1, 1]
        for word in self.words:
            self.device.write(word, struct.pack("<Q", 1))
        self.device.synchronize()  # the stream does not wait for what is not its own
        self.module = emu_runtime.Module(0, self.affine)
        self.stream = emu_runtime.Stream(0)

    def launch(self, word: int = 0) -> None:
        arguments = struct.pack("<Qqq", self.words[word], 3, 1)
        self.module.launch((1, 1, 1), arguments, self.stream)
        self.expected[word] = (self.expected[word] * 3 + 1) % 2**64

    def expect(self, launches: int) -> None:
        self.expected = [1, 1]
        for _ in range(launches):
            self.expected[0] = (self.expected[0] * 3 + 1) % 2**64

    def is_right(self) -> bool:
        read = [struct.unpack("<Q", self.device.read(word, 8))[0] for word in self.words]
        return read == self.expected

    def recover(self, scope: str, driver: Driver) -> None:
        if scope == "queue":
            self.stream.destroy()
            self.stream = emu_runtime.Stream(0)
        elif scope in ("context", "device"):
            if scope == "device":
                driver.reset()
            self.device.reset()
            self.make()


def of_me(driver: Driver) -> dict[str, Any]:
    """The last event about a command of this process."""
    mine = [e for e in driver.events()[0] if e.kind == EventKind.FAULT and e.process == os.getpid()]
    return event_data(mine[-1]) if mine else {}


def strike(work: Work, driver: Driver, kind: FaultKind, command: int) -> int:
    """Launches; the number of the one that was struck. Raises what they end with."""
    bit = kind in (FaultKind.BIT_CORRECTED, FaultKind.BIT_UNCORRECTED)
    number = driver.inject(
        CFault(
            kind=kind,
            process=os.getpid(),
            queue=ANY_QUEUE,
            command=0 if bit or kind == FaultKind.LOST_DOORBELL else CommandKind.LAUNCH,
            times=1,
            skip=0 if bit or kind == FaultKind.LOST_DOORBELL else command - 1,
            factor=5 if kind == FaultKind.SLOW else 0,
            address=work.words[1] + 8 if bit else 0,
        )
    )
    if kind == FaultKind.LOST_DOORBELL:
        for attempt in range(1, ATTEMPTS):
            time.sleep(0.01)
            work.launch()
            work.stream.synchronize()
            if any(fault.number == number and fault.struck for fault in driver.faults()):
                return attempt
        return 0
    try:
        for launch in range(1, command + BEHIND + 1):
            work.launch(1 if bit and launch == command else 0)
    except errors.EmuError:
        pass  # the stream says more
    work.stream.synchronize()
    return command


def main(kind: FaultKind, command: int, scope: str, affine: str) -> dict[str, Any]:
    driver = Driver(0)
    work = Work(affine)
    before = work.device.telemetry()
    told: dict[str, Any] = {"error": None}
    try:
        command = strike(work, driver, kind, command)
        told["right"] = work.is_right()
    except errors.EmuError as error:
        told.update(error=type(error).__name__, scope=error.scope.name, program=error.program)
        told.update(command=error.command, cause=error.cause)
        work.expect(command - 1)  # what was in front was done, and nothing of what was behind
    after = work.device.telemetry()
    told["event"] = of_me(driver)
    told["struck"] = command
    for name in ("ecc_corrected", "ecc_uncorrected", "throttled_ticks"):
        told[name] = getattr(after, name) - getattr(before, name)
    told["throttle"] = after.throttle
    told["works"] = False
    try:
        work.recover(scope, driver)
        work.launch()
        work.stream.synchronize()
        told["works"] = work.is_right()
    except errors.EmuError as error:
        told["still"] = type(error).__name__
    return told


if __name__ == "__main__":
    word, number, scope, affine = sys.argv[1:]
    print(json.dumps(main(FaultKind[word], int(number), scope, affine)))
