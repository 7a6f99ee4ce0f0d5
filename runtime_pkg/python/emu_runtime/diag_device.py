"""Steps of emu-diag on the device: memory, copies, a program, fences, a profile, shutdown.

Expected results are computed here on the host from seeded data, never taken from the device.
"""

from __future__ import annotations

import array
import random
import time
from collections.abc import Callable
from pathlib import Path

import emu_runtime
from emu_runtime.device import Device, PinnedBuffer
from emu_runtime.diagnosis import Figures, Finding, Step
from emu_runtime.errors import ShutDownError
from emu_runtime.stream import Event, Module, Stream

SEED = 20_240_229
MIB = 2**20
LANES = 256

# c[i] = a[i] * b[i] + a[i], i32 and wrapping, LANES elements a block; the last block is shorter.
PROGRAM = f"""\
.program diag_multiply_add
.lanes {LANES}
.args 32
  arg.i64 s0, 0          ; a
  arg.i64 s1, 8          ; b
  arg.i64 s2, 16         ; c
  arg.i64 s3, 24         ; elements
  block s4, 0
  const.i64 s5, {LANES}
  mul.i64 s6, s4, s5     ; first element of this block
  sub.i64 s7, s3, s6
  setvl s7, s7
  const.i64 s8, 4
  mul.i64 s6, s6, s8
  add.i64 s0, s0, s6
  add.i64 s1, s1, s6
  add.i64 s2, s2, s6
  load.i32 v0, s0
  load.i32 v1, s1
  mul.i32 v2, v0, v1
  add.i32 v2, v2, v0
  store.i32 v2, s2
  exit
"""


class _Kernel:
    """The program with its data on the device and the result that the host expects."""

    def __init__(self, index: int, elements: int) -> None:
        source = random.Random(SEED)
        self.device = Device(index)
        self.elements = elements
        a = array.array("i", source.randbytes(4 * elements))
        b = array.array("i", source.randbytes(4 * elements))
        wrapped = (((x * y + x + 2**31) % 2**32) - 2**31 for x, y in zip(a, b, strict=True))
        self.expected = array.array("i", wrapped)
        self.addresses = [self.device.alloc(4 * elements) for _ in range(3)]
        self.device.write(self.addresses[0], a.tobytes())
        self.device.write(self.addresses[1], b.tobytes())
        self.device.synchronize()  # other streams launch on what the default stream wrote
        self.module = Module(index, PROGRAM)

    def launch(self, stream: Stream | None = None) -> None:
        blocks = -(-self.elements // LANES)
        arguments = array.array("q", [*self.addresses, self.elements]).tobytes()
        self.module.launch((blocks, 1, 1), arguments, stream)

    def check(self) -> None:
        got = array.array("i", self.device.read(self.addresses[2], 4 * self.elements))
        for index, (expected, found) in enumerate(zip(self.expected, got, strict=True)):
            if expected != found:
                raise Finding(
                    f"element {index} of {self.elements}: expected {expected}, got {found}",
                    "Run the machine's conformance tests: its arithmetic is wrong",
                )

    def free(self) -> None:
        for address in self.addresses:
            self.device.free(address)


def _compare(place: str, expected: bytes, got: bytes) -> None:
    if expected == got:
        return
    first = next(i for i, (a, b) in enumerate(zip(expected, got, strict=True)) if a != b)
    raise Finding(
        f"{place}: byte {first} of {len(expected)}: expected {expected[first]:#04x}, "
        f"got {got[first]:#04x}"
    )


def open_device(index: int, level: int) -> Figures:
    properties = Device(index).properties()
    return {
        "name": f"{properties.name} {properties.stepping}",
        "firmware": properties.firmware,
        "driver": properties.driver,
        "node": "private" if properties.is_private else properties.node,
        "emud pid": properties.emud_pid,
    }


def _numbers(offset: int, size: int) -> bytes:
    return array.array("Q", range(offset // 8, (offset + size) // 8)).tobytes()


def _complements(offset: int, size: int) -> bytes:
    most = 2**64 - 1
    return array.array("Q", range(most - offset // 8, most - (offset + size) // 8, -1)).tobytes()


def memory(index: int, level: int) -> Figures:
    """Each word holds its number, then its complement: finds stuck bits and mixed addresses."""
    device = Device(index)
    total = (16 if level == 1 else 256) * MIB
    chunk = 4 * MIB
    address = device.alloc(total)
    for pattern in (_numbers, _complements):
        for offset in range(0, total, chunk):
            device.write(address + offset, pattern(offset, chunk))
        for offset in range(0, total, chunk):
            place = f"memory at {address + offset:#x}"
            _compare(place, pattern(offset, chunk), device.read(address + offset, chunk))
    device.free(address)
    return {"MiB": total // MIB, "patterns": 2}


def copies(index: int, level: int) -> Figures:
    """Pageable and pinned, to the device, on it and back, at sizes around the staging buffer's."""
    device = Device(index)
    source = random.Random(SEED)
    sizes = [1, 511, 4096, 4 * MIB - 1, 4 * MIB + 1, 9 * MIB]
    sizes += [64 * MIB + 3] if level == 2 else []
    for size in sizes:
        data = source.randbytes(size)
        first, second = device.alloc(size), device.alloc(size)
        device.write(first, data)
        device.copy(second, first, size)
        _compare(f"pageable copy of {size} bytes", data, device.read(second, size))
        pinned, back = PinnedBuffer(size), PinnedBuffer(size)
        pinned.fill_from(data)
        device.fill(first, 0, size)
        device.write(first, pinned)
        device.read_pinned(back, first)
        device.synchronize()
        _compare(f"pinned copy of {size} bytes", data, bytes(back))
        pinned.free()
        back.free()
        device.free(first)
        device.free(second)
    return {"sizes": len(sizes), "largest": max(sizes)}


def program(index: int, level: int) -> Figures:
    elements = 100_003 if level == 1 else 1_000_003
    kernel = _Kernel(index, elements)
    for _ in range(1 if level == 1 else 50):
        kernel.device.fill(kernel.addresses[2], 0, 4 * elements)
        kernel.launch()
        kernel.check()
    kernel.free()
    return {"elements": elements}


def fences(index: int, level: int) -> Figures:
    """A stream that waits for an event sees what was written before it, each time."""
    rounds = 20 if level == 1 else 500
    kernel = _Kernel(index, 10_007)
    size = 4 * kernel.elements
    target = kernel.device.alloc(size)
    first, second = Stream(index), Stream(index)
    event, freed = Event(index), Event(index)
    for _ in range(rounds):
        kernel.device.fill(kernel.addresses[2], 0, size, first)
        kernel.launch(first)
        event.record(first)
        second.wait_event(event)
        kernel.device.copy(target, kernel.addresses[2], size, second)
        freed.record(second)
        first.wait_event(freed)
        got = kernel.device.read(target, size, second)
        _compare("a stream after an event", kernel.expected.tobytes(), got)
    kernel.free()
    kernel.device.free(target)
    return {"rounds": rounds}


def profile(index: int, level: int) -> Figures:
    """One launch gives one record, tied to its cause; device time is the same each time."""
    kernel = _Kernel(index, 100_003)
    ticks = []
    for number in (7, 8):
        with emu_runtime.record_activity(index) as records, emu_runtime.correlation(number):
            kernel.launch()
        launches = [r for r in records if r.kind is emu_runtime.ActivityKind.LAUNCH]
        if len(launches) != 1 or launches[0].correlation != number:
            raise Finding(f"expected one launch with correlation {number}, got {launches}")
        ticks.append(launches[0].ticks)
    kernel.free()
    if ticks[0] <= 0 or ticks[0] != ticks[1]:
        raise Finding(f"the same launch took {ticks[0]} and {ticks[1]} ticks of device time")
    return {"ticks": ticks[0]}


def shutdown(index: int, level: int) -> Figures:
    """All is given back: calls are refused, and a private emud has ended."""
    properties = Device(index).properties()
    emu_runtime.shutdown()
    try:
        emu_runtime.device_count()
    except ShutDownError:
        pass
    else:
        raise Finding("a call after shutdown was not refused")
    if properties.is_private:
        _await_end(properties.emud_pid)
    return {}


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            raise Finding(f"emud with pid {pid} is still there 5 s after shutdown", "End it")
        time.sleep(0.01)


def steps(index: int, level: int) -> list[Step]:
    """The steps in order; `index` is the device, `level` how thorough they are."""

    def step(
        name: str, body: Callable[[int, int], Figures], *needs: str, seconds: float = 60
    ) -> Step:
        return Step(name, lambda: body(index, level), needs, seconds)

    longest = 60 if level == 1 else 180
    return [
        step("device opens", open_device, "libraries load", "device node"),
        step("memory", memory, "device opens", seconds=longest),
        step("copies", copies, "device opens", seconds=longest),
        step("program", program, "device opens", "copies", seconds=longest),
        step("fences", fences, "program", seconds=longest),
        step("profile", profile, "program"),
        step("shutdown", shutdown, "device opens"),
    ]
