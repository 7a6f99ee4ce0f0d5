"""Steps of emu-diag on the device: a program, fences, queues, a profile, shutdown.

Expected results are computed here on the host from seeded data, never taken from the device.
"""

from __future__ import annotations

import array
import random
import time
from collections.abc import Callable
from pathlib import Path

import emu_runtime
from emu_runtime import diag_instructions, diag_memory, diag_state
from emu_runtime.device import Device
from emu_runtime.diag_memory import Held, compare, holding
from emu_runtime.diagnosis import Figures, Finding, Plan, Step
from emu_runtime.errors import ShutDownError
from emu_runtime.stream import Event, Module, Stream

SEED = 20_240_229
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

    def __init__(self, held: Held, elements: int) -> None:
        source = random.Random(SEED)
        self.device = held.device
        self.elements = elements
        a = array.array("i", source.randbytes(4 * elements))
        b = array.array("i", source.randbytes(4 * elements))
        wrapped = (((x * y + x + 2**31) % 2**32) - 2**31 for x, y in zip(a, b, strict=True))
        self.expected = array.array("i", wrapped)
        self.addresses = [held.alloc(4 * elements) for _ in range(3)]
        self.device.write(self.addresses[0], a.tobytes())
        self.device.write(self.addresses[1], b.tobytes())
        self.device.synchronize()  # other streams launch on what the default stream wrote
        self.module = Module(self.device.index, PROGRAM)

    def launch(self, stream: Stream | None = None) -> None:
        blocks = -(-self.elements // LANES)
        arguments = array.array("q", [*self.addresses, self.elements]).tobytes()
        self.module.launch((blocks, 1, 1), arguments, stream)

    def check(self) -> None:
        got = array.array("i", self.device.read(self.addresses[2], 4 * self.elements))
        if got == self.expected:
            return
        for index, (expected, found) in enumerate(zip(self.expected, got, strict=True)):
            if expected != found:
                raise Finding(
                    f"element {index} of {self.elements}: expected {expected}, got {found}",
                    "Run the machine's conformance tests: its arithmetic is wrong",
                )


def open_device(plan: Plan) -> Figures:
    properties = Device(plan.device).properties()
    return {
        "name": f"{properties.name} {properties.stepping}",
        "firmware": properties.firmware,
        "driver": properties.driver,
        "node": "private" if properties.is_private else properties.node,
        "emud pid": properties.emud_pid,
    }


def program(plan: Plan) -> Figures:
    elements = plan.pick(100_003, 1_000_003, 1_000_003)
    with holding(plan) as held:
        kernel = _Kernel(held, elements)
        for _ in range(plan.pick(1, 50, 500)):
            kernel.device.fill(kernel.addresses[2], 0, 4 * elements)
            kernel.launch()
            kernel.check()
    return {"elements": elements}


def fences(plan: Plan) -> Figures:
    """A stream that waits for an event sees what was written before it, each time."""
    rounds = plan.pick(20, 500, 5000)
    with holding(plan) as held:
        kernel = _Kernel(held, 10_007)
        size = 4 * kernel.elements
        target = held.alloc(size)
        first, second = Stream(plan.device), Stream(plan.device)
        event, freed = Event(plan.device), Event(plan.device)
        for _ in range(rounds):
            kernel.device.fill(kernel.addresses[2], 0, size, first)
            kernel.launch(first)
            event.record(first)
            second.wait_event(event)
            kernel.device.copy(target, kernel.addresses[2], size, second)
            freed.record(second)
            first.wait_event(freed)
            got = kernel.device.read(target, size, second)
            compare("a stream after an event", kernel.expected.tobytes(), got)
    return {"rounds": rounds}


def queues(plan: Plan) -> Figures:
    """Streams side by side, of both priorities: each has its own results, in its own order."""
    count, rounds = 8, plan.pick(4, 100, 1000)
    with holding(plan) as held:
        kernels = [_Kernel(held, 4099 + number) for number in range(count)]
        streams = [Stream(plan.device, priority=number % 2) for number in range(count)]
        for _ in range(rounds):
            for kernel, stream in zip(kernels, streams, strict=True):
                kernel.device.fill(kernel.addresses[2], 0xA5, 4 * kernel.elements, stream)
                kernel.launch(stream)
        for kernel, stream in zip(kernels, streams, strict=True):
            stream.synchronize()
            kernel.check()
    return {"streams": count, "commands": 2 * count * rounds}


def profile(plan: Plan) -> Figures:
    """One launch gives one record, tied to its cause; device time is the same each time."""
    ticks = []
    with holding(plan) as held:
        kernel = _Kernel(held, 100_003)
        for number in (7, 8):
            with (
                emu_runtime.record_activity(plan.device) as records,
                emu_runtime.correlation(number),
            ):
                kernel.launch()
            launches = [r for r in records if r.kind is emu_runtime.ActivityKind.LAUNCH]
            if len(launches) != 1 or launches[0].correlation != number:
                raise Finding(f"expected one launch with correlation {number}, got {launches}")
            ticks.append(launches[0].ticks)
    if ticks[0] <= 0 or ticks[0] != ticks[1]:
        raise Finding(f"the same launch took {ticks[0]} and {ticks[1]} ticks of device time")
    return {"ticks": ticks[0]}


def shutdown(plan: Plan) -> Figures:
    """All is given back: calls are refused, and a private emud has ended."""
    properties = Device(plan.device).properties()
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


def steps(plan: Plan) -> list[Step]:
    """The steps in order; which there are depends on the plan's level alone."""

    def step(name: str, body: Callable[[Plan], Figures], *needs: str, least: int = 1) -> list[Step]:
        seconds = plan.pick(60, 180, 1800)
        made = Step(name, lambda: body(plan), needs, seconds)
        return [made] if plan.level >= least else []

    return [
        *step("device opens", open_device, "libraries load", "device node"),
        *step("firmware", diag_state.firmware, "device opens"),
        *step("condition", diag_state.condition, "device opens"),
        *step("pinned memory", diag_memory.pinned, "device opens"),
        *step("memory", diag_memory.memory, "device opens"),
        *step("copies", diag_memory.copies, "memory", "pinned memory"),
        *step("bandwidth", diag_memory.bandwidth, "copies", least=2),
        *step("program", program, "copies"),
        *step("instructions", diag_instructions.instructions, "program", least=2),
        *step("fences", fences, "program"),
        *step("queues", queues, "fences"),
        *step("profile", profile, "program"),
        *step("telemetry", diag_state.telemetry, "program"),
        *step("shutdown", shutdown, "device opens"),
    ]
