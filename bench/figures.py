"""The figures: what is timed, against what, and the bound that the ratio must keep.

Each is two pieces of work on one machine, timed in turns in one process, so that a busy
host slows both. A ratio is of medians. The other side uses as many threads as the device,
but for memcpy, which has one.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import emu_runtime
import torch
from emu_runtime.library import table

EMPTY = ".program empty\n.lanes 64\n.args 0\nexit\n"
COPY_BYTES = 64 << 20
ADD_ELEMENTS = 16 << 20
PRODUCT_SIZE = 1024
WARM_UP = 3  # turns
TO_DEVICE, FROM_DEVICE = 1, 2  # emurt_copy_kind

Work = Callable[[], object]


@dataclass(frozen=True)
class Figure:
    """`ours` and `theirs` are medians in seconds; `value` is what `bound` bounds."""

    name: str
    what: str
    against: str
    ours: float
    theirs: float
    value: float
    unit: str
    bound: float
    at_most: bool
    rounds: int

    @property
    def kept(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


def alternate(ours: Work, theirs: Work, rounds: int, block: int = 1) -> tuple[float, float]:
    """Medians in seconds of each work, timed call by call, `block` calls of one then of the other.

    Some turns come first that do not count. Work of microseconds needs blocks: both sides wake
    other processes, and on two cores the one would measure how the other falls asleep.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + rounds):
        for work, kept in zip((ours, theirs), times, strict=True):
            for _ in range(block):
                start = time.perf_counter()
                work()
                if number >= WARM_UP:
                    kept.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


@contextmanager
def echo() -> Iterator[Work]:
    """A round trip of one byte to another process and back: the host's own wake-up time."""
    there_read, there_write = os.pipe()
    back_read, back_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(there_write)
            while os.read(there_read, 1):
                os.write(back_write, b"x")
        finally:
            os._exit(0)
    os.close(there_read)

    def round_trip() -> None:
        os.write(there_write, b"x")
        os.read(back_read, 1)

    try:
        yield round_trip
    finally:
        os.close(there_write)
        os.waitpid(child, 0)
        os.close(back_read)
        os.close(back_write)


def launch_and_wait(round_trip: Work) -> Figure:
    api = table()
    module = emu_runtime.Module(0, EMPTY)
    grid = (ctypes.c_uint32 * 3)(1, 1, 1)

    def ours() -> None:
        status = api.launch(0, None, module.handle, grid, None, 0)
        status |= api.stream_synchronize(0, None)
        if status:
            raise RuntimeError(f"launch and wait gave status {status}")

    rounds, block = 20, 200
    seconds, other = alternate(ours, round_trip, rounds, block)
    return Figure(
        name="launch_and_wait",
        what="launch-and-wait of an empty program",
        against="one byte to another process and back",
        ours=seconds,
        theirs=other,
        value=seconds * 1e6,
        unit="µs",
        bound=30,
        at_most=True,
        rounds=rounds * block,
    )


def pinned_copy() -> Figure:
    """The slower of the two directions."""
    device = emu_runtime.Device(0)
    api = table()
    pinned = emu_runtime.PinnedBuffer(COPY_BYTES)
    ctypes.memset(pinned.address or 0, 1, COPY_BYTES)
    address = device.alloc(COPY_BYTES)
    source, target = (ctypes.create_string_buffer(COPY_BYTES) for _ in range(2))
    ctypes.memset(source, 2, COPY_BYTES)

    def copy(kind: int) -> Work:
        def ours() -> None:
            status = api.copy(0, None, kind, pinned.address, address, 0, COPY_BYTES)
            status |= api.stream_synchronize(0, None)
            if status:
                raise RuntimeError(f"a copy gave status {status}")

        return ours

    def memcpy() -> None:
        ctypes.memmove(target, source, COPY_BYTES)

    rounds = 15
    pairs = [alternate(copy(kind), memcpy, rounds) for kind in (TO_DEVICE, FROM_DEVICE)]
    ours, theirs = max(pairs, key=lambda pair: pair[0] / pair[1])
    device.free(address)
    pinned.free()
    return Figure(
        name="pinned_copy",
        what="pinned copy of 64 MiB, the slower direction",
        against="memcpy",
        ours=ours,
        theirs=theirs,
        value=theirs / ours,
        unit="of memcpy's bandwidth",
        bound=0.4,
        at_most=False,
        rounds=rounds,
    )


def add() -> Figure:
    host = [torch.randn(ADD_ELEMENTS) for _ in range(3)]
    there = [tensor.to("emu") for tensor in host]

    def ours() -> None:
        torch.add(there[0], there[1], out=there[2])
        torch.accelerator.synchronize()

    def theirs() -> None:
        torch.add(host[0], host[1], out=host[2])

    rounds = 15
    seconds, other = alternate(ours, theirs, rounds)
    if not torch.equal(there[2].cpu(), host[2]):
        raise RuntimeError("the sum on the device is not the CPU's: its time means nothing")
    return Figure(
        name="add",
        what="add of 16 Mi f32 elements",
        against="torch on CPU",
        ours=seconds,
        theirs=other,
        value=seconds / other,
        unit="times the CPU's time",
        bound=3,
        at_most=True,
        rounds=rounds,
    )


def product() -> Figure:
    shape = (PRODUCT_SIZE, PRODUCT_SIZE)
    host = [torch.randn(shape) for _ in range(2)] + [torch.empty(shape)]
    there = [tensor.to("emu") for tensor in host]

    def ours() -> None:
        torch.mm(there[0], there[1], out=there[2])
        torch.accelerator.synchronize()

    def theirs() -> None:
        torch.mm(host[0], host[1], out=host[2])

    rounds = 15
    seconds, other = alternate(ours, theirs, rounds)
    if (there[2].cpu() - host[2]).abs().max().item() > 0.01:
        raise RuntimeError("the product on the device is not the CPU's: its time means nothing")
    return Figure(
        name="product",
        what="1024 x 1024 x 1024 f32 matrix product",
        against="torch on CPU",
        ours=seconds,
        theirs=other,
        value=seconds / other,
        unit="times the CPU's time",
        bound=4,
        at_most=True,
        rounds=rounds,
    )
