"""Queues keep their order, fences order queues, and a kernel can be timed."""

from __future__ import annotations

import array
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from gate0_health import programs

if TYPE_CHECKING:
    import emu_runtime

SEED = 5


def read_word(runtime: emu_runtime.Device, address: int) -> int:
    return int.from_bytes(runtime.read(address, 8), "little")


@pytest.mark.check("gate0.queue.order", obligations=["G0"], kind="focused test")
def test_order(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Commands of one queue overtake each other, are lost, or run twice."""
    import emu_runtime

    generator = random.Random(SEED)
    steps = [
        (generator.randrange(1, 1 << 32) | 1, generator.randrange(1 << 32)) for _ in range(5000)
    ]
    module = emu_runtime.Module(runtime.index, programs.AFFINE)
    address = runtime.alloc(8)
    runtime.write(address, (1).to_bytes(8, "little"))
    for a, b in steps:
        programs.affine(module, address, a, b)
    assert read_word(runtime, address) == programs.affine_result(1, steps)
    runtime.free(address)
    detail(seed=SEED, launches=len(steps))


@pytest.mark.check("gate0.fence.cross_queue", obligations=["G0"], kind="focused test")
def test_fence(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A queue does not wait for another's fence, or two queues wait for each other for ever."""
    import emu_runtime

    streams = [emu_runtime.Stream(runtime.index), emu_runtime.Stream(runtime.index, -1)]
    module = emu_runtime.Module(runtime.index, programs.AFFINE)
    busy, count = emu_runtime.Module(runtime.index, programs.SCALE_ADD), 1 << 18
    x, y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    address = runtime.alloc(8)
    runtime.write(address, (1).to_bytes(8, "little"))
    runtime.synchronize()
    steps = [(2 * n + 3, n) for n in range(200)]
    for number, (a, b) in enumerate(steps):
        stream, other = streams[number % 2], streams[1 - number % 2]
        # Longer than the next submission takes: a step that does not wait overtakes this one.
        programs.scale_add(busy, x, y, count, 1.0, stream)
        programs.affine(module, address, a, b, stream)
        event = emu_runtime.Event(runtime.index)
        event.record(stream)
        other.wait_event(event)
    for stream in streams:
        stream.synchronize()
    assert read_word(runtime, address) == programs.affine_result(1, steps)
    for block in (x, y, address):
        runtime.free(block)
    detail(fences=len(steps))


@pytest.mark.check("gate0.event.completes", obligations=["G0"], kind="focused test")
def test_event(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """An event is done before its work, or never; or device time does not pass.

    What an event promises is seen from another queue, which nothing orders after the work: from
    the moment the event is done, the work's result is there. However slow the host is, a healthy
    device keeps that.
    """
    import emu_runtime

    # Each launch takes milliseconds on the device and microseconds to submit, so that an event
    # that is done too early is always caught.
    count, launches = 4 << 20, 40
    module = emu_runtime.Module(runtime.index, programs.SCALE_ADD)
    x, y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    other = emu_runtime.Stream(runtime.index)
    start = emu_runtime.Event(runtime.index, timing=True)
    end = emu_runtime.Event(runtime.index, timing=True)
    assert start.query(), "an event that was never recorded is done"
    runtime.write(x, array.array("f", [1.0]).tobytes() * count)
    runtime.fill(y, 0, 4 * count)
    runtime.synchronize()
    start.record()
    for _ in range(launches):
        programs.scale_add(module, x, y, count, 1.0)
    end.record()
    polls = 0
    while not end.query():
        polls += 1
    (last,) = array.array("f", runtime.read(y + 4 * (count - 1), 4, other))
    assert last == launches, "the event is done and its work is not"
    end.synchronize()
    device_ms, host_ms = start.elapsed(end)
    assert device_ms > 0 and host_ms > 0
    runtime.free(x)
    runtime.free(y)
    detail(launches=launches, polls=polls)


@pytest.mark.check("gate0.kernel.profile", obligations=["B4", "G0", "O1"], kind="focused test")
def test_profile(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A kernel's result is wrong, it leaves no record, or its device time varies with the host."""
    import emu_runtime

    count = 10_007
    x = array.array("f", range(count))
    y = array.array("f", [0.5] * count)
    there_x, there_y = runtime.alloc(4 * count), runtime.alloc(4 * count)
    runtime.write(there_x, x.tobytes())
    module = emu_runtime.Module(runtime.index, programs.SCALE_ADD)
    seen: list[emu_runtime.Activity] = []
    for number in (71, 72):
        runtime.write(there_y, y.tobytes())
        with emu_runtime.record_activity(runtime.index) as records, emu_runtime.correlation(number):
            programs.scale_add(module, there_x, there_y, count, 2.0)
        launches = [r for r in records if r.kind == emu_runtime.ActivityKind.LAUNCH]
        assert [(r.program, r.correlation) for r in launches] == [("scale_add", number)]
        seen += launches
        got = array.array("f", runtime.read(there_y, 4 * count))
        assert got == array.array("f", (2.0 * value + 0.5 for value in x))
    detail(path="device program", ticks=[r.ticks for r in seen], grid=seen[0].grid, elements=count)
    assert seen[0].ticks == seen[1].ticks > 0
    assert seen[0].grid == (40, 1, 1)
    assert seen[0].end_ticks <= seen[1].start_ticks, "two commands of one queue overlap"
    runtime.free(there_x)
    runtime.free(there_y)


@pytest.mark.check("gate0.program.refused", obligations=["G0", "Q8"], kind="focused test")
def test_refused(runtime: emu_runtime.Device) -> None:
    """A malformed program is loaded, or refused without saying where it is wrong."""
    import emu_runtime
    from emu_runtime.errors import BadProgramError

    for wrong, place in (
        (".program p\n.lanes 64\n.args 0\nadd.f32 v0, v1\nexit\n", "4"),
        (".program p\n.lanes 64\n.args 0\nmov.f32 v0, v1\nexit\n", ""),
        (".program p\n.lanes 64\n.args 0\n", ""),
    ):
        with pytest.raises(BadProgramError) as raised:
            emu_runtime.Module(runtime.index, wrong)
        assert place in str(raised.value)
    emu_runtime.Module(runtime.index, programs.EMPTY).launch((1, 1, 1), b"")
    runtime.synchronize()
