"""The figures: what is timed, against what, and the bound that the ratio must keep.

Most are two pieces of work on one machine, timed in turns in one process, so that a busy
host slows both, and a ratio is of medians. The first two are times; what stands beside them says
how busy the host was. The other side uses as many threads as the device,
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
ROWS, COLUMNS = 4096, 1024
ENQUEUED = 500  # launches in a row, which the queue's ring holds
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
        bound=15,
        at_most=True,
        rounds=rounds * block,
    )


def enqueue(round_trip: Work) -> Figure:
    """An asynchronous launch, seen by who submits it: a call in Python of the runtime's table."""
    api = table()
    module = emu_runtime.Module(0, EMPTY)
    grid = (ctypes.c_uint32 * 3)(1, 1, 1)
    submit, handle = api.launch, module.handle

    def ours() -> float:
        """Seconds a launch, of many in a row; then they are waited for, which does not count."""
        status = 0
        start = time.perf_counter()
        for _ in range(ENQUEUED):
            status |= submit(0, None, handle, grid, None, 0)
        seconds = (time.perf_counter() - start) / ENQUEUED
        status |= api.stream_synchronize(0, None)
        if status:
            raise RuntimeError(f"launches in a row gave status {status}")
        return seconds

    rounds = 40
    means: list[float] = []
    _, other = alternate(lambda: means.append(ours()), round_trip, rounds)
    seconds = statistics.median(means[WARM_UP:])
    return Figure(
        name="enqueue",
        what=f"asynchronous launch of an empty program, {ENQUEUED} in a row",
        against="one byte to another process and back",
        ours=seconds,
        theirs=other,
        value=seconds * 1e6,
        unit="µs",
        bound=2,
        at_most=True,
        rounds=rounds,
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
        bound=0.6,
        at_most=False,
        rounds=rounds,
    )


def operator(
    name: str,
    what: str,
    bound: float,
    ours: Callable[[], torch.Tensor],
    theirs: Callable[[], torch.Tensor],
    within: float,
) -> Figure:
    """One operator on the device, waited for, against the same on the CPU: works that give results.

    Results further apart than `within` (absolute; 0: to the bit) raise RuntimeError.
    """

    def waited() -> None:
        ours()
        torch.accelerator.synchronize()

    rounds = 15
    seconds, other = alternate(waited, theirs, rounds)
    if not torch.allclose(ours().cpu(), theirs(), rtol=0, atol=within):
        raise RuntimeError(f"{name}: the device's result is not the CPU's: its time means nothing")
    return Figure(
        name=name,
        what=what,
        against="torch on CPU",
        ours=seconds,
        theirs=other,
        value=seconds / other,
        unit="times the CPU's time",
        bound=bound,
        at_most=True,
        rounds=rounds,
    )


def operators() -> Iterator[Figure]:
    first, second = (torch.randn(ADD_ELEMENTS) for _ in range(2))
    to = torch.empty_like(first)
    there = [tensor.to("emu") for tensor in (first, second, to)]
    yield operator(
        "add",
        "add of 16 Mi f32 elements",
        2,
        lambda: torch.add(there[0], there[1], out=there[2]),
        lambda: torch.add(first, second, out=to),
        within=0,
    )
    first, second, to = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE) for _ in range(3))
    there = [tensor.to("emu") for tensor in (first, second, to)]
    yield operator(
        "product",
        "1024 x 1024 x 1024 f32 matrix product",
        2.5,
        lambda: torch.mm(there[0], there[1], out=there[2]),
        lambda: torch.mm(first, second, out=to),
        within=0.01,
    )
    rows = torch.randn(ROWS, COLUMNS)
    scale, shift = torch.randn(COLUMNS), torch.randn(COLUMNS)
    matrix, weight, bias = (tensor.to("emu") for tensor in (rows, scale, shift))
    yield operator(
        "softmax",
        f"softmax of each of {ROWS} x {COLUMNS} f32",
        3,
        lambda: torch.softmax(matrix, 1),
        lambda: torch.softmax(rows, 1),
        within=1e-6,
    )
    yield operator(
        "layer_norm",
        f"layer norm of each of {ROWS} x {COLUMNS} f32",
        3,
        lambda: torch.nn.functional.layer_norm(matrix, (COLUMNS,), weight, bias),
        lambda: torch.nn.functional.layer_norm(rows, (COLUMNS,), scale, shift),
        within=1e-4,
    )
