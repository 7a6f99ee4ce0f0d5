"""Steps of emu-diag on memory: patterns, pinned memory, copies and how fast they are.

Expected bytes are made here from a seed, never taken from the device.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import emu_runtime
from emu_runtime.activity import ActivityKind
from emu_runtime.device import Device, PinnedBuffer
from emu_runtime.diagnosis import Figures, Finding, Plan

SEED = 20_240_229
MIB = 2**20
CHUNK = 4 * MIB


@dataclass(frozen=True)
class Held:
    """What one step takes of a device, and gives back however it ends."""

    device: Device
    stack: contextlib.ExitStack

    def alloc(self, size: int) -> int:
        address = self.device.alloc(size)
        self.stack.callback(self.device.free, address)
        return address

    def pinned(self, size: int) -> PinnedBuffer:
        buffer = PinnedBuffer(size)
        self.stack.callback(buffer.free)
        return buffer


@contextlib.contextmanager
def holding(plan: Plan) -> Iterator[Held]:
    device = Device(plan.device)
    with contextlib.ExitStack() as stack:
        stack.callback(device.empty_cache)  # the next step finds it all free
        yield Held(device, stack)


def compare(place: str, expected: bytes, got: bytes) -> None:
    if expected == got:
        return
    first = next(i for i, (a, b) in enumerate(zip(expected, got, strict=True)) if a != b)
    raise Finding(
        f"{place}: byte {first} of {len(expected)}: expected {expected[first]:#04x}, "
        f"got {got[first]:#04x}"
    )


def memory(plan: Plan) -> Figures:
    """Each chunk holds bytes of its own, then their complements: stuck bits and mixed addresses.

    Level 3 takes all of the device that is free, up to --memory and to half of what the host has
    free, since the host's memory stands behind the device's.
    """
    device = Device(plan.device)
    free = _free(plan, device)
    total = min(free, plan.pick(16 * MIB, 256 * MIB, free)) // CHUNK * CHUNK
    with holding(plan) as held:
        blocks = [held.alloc(min(64 * CHUNK, total - at)) for at in range(0, total, 64 * CHUNK)]
        places = [blocks[at // (64 * CHUNK)] + at % (64 * CHUNK) for at in range(0, total, CHUNK)]
        source = random.Random(SEED).randbytes(CHUNK + 8 * len(places))
        complement = bytes(byte ^ 0xFF for byte in range(256))
        for pattern in (source, source.translate(complement)):
            for number, address in enumerate(places):
                device.write(address, memoryview(pattern)[8 * number : 8 * number + CHUNK])
            for number, address in enumerate(places):
                expected = pattern[8 * number : 8 * number + CHUNK]
                compare(f"memory at {address:#x}", expected, device.read(address, CHUNK))
    return {"MiB": total // MIB, "patterns": 2}


def _free(plan: Plan, device: Device) -> int:
    free = device.properties().memory_bytes - device.telemetry().memory_used_bytes
    host = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    asked = free if plan.memory_bytes is None else plan.memory_bytes
    return max(min(free, asked, host // 2), CHUNK)


def _size(plan: Plan, blocks: int) -> int:
    """Of each of so many blocks: whole MiB, as far as there is room."""
    room = _free(plan, Device(plan.device)) // blocks // MIB
    return min(room, plan.pick(16, 64, 256)) * MIB


def pinned(plan: Plan) -> Figures:
    """Host memory that the device reads and writes itself can be had, and is that memory."""
    size = _size(plan, 1)
    with holding(plan) as held:
        buffer = held.pinned(size)
        address = held.alloc(size)
        held.device.fill(address, 0x5A, size)
        held.device.read_pinned(buffer, address)
        held.device.synchronize()
        compare(f"pinned memory of {size} bytes", b"\x5a" * size, bytes(buffer))
    return {"MiB": size // MIB}


def copies(plan: Plan) -> Figures:
    """Pageable and pinned, to the device, on it and back, at sizes around the staging buffer's."""
    device = Device(plan.device)
    source = random.Random(SEED)
    sizes = [1, 511, 4096, 4 * MIB - 1, 4 * MIB + 1, 9 * MIB]
    sizes += plan.pick([], [64 * MIB + 3], [64 * MIB + 3, 256 * MIB - 1])
    free = _free(plan, device)
    sizes = [size for size in sizes if 2 * size + CHUNK <= free]  # and what pages round up
    for size in sizes:
        data = source.randbytes(size)
        with holding(plan) as held:
            first, second = held.alloc(size), held.alloc(size)
            device.write(first, data)
            device.copy(second, first, size)
            compare(f"pageable copy of {size} bytes", data, device.read(second, size))
            pinned, back = held.pinned(size), held.pinned(size)
            pinned.fill_from(data)
            device.fill(first, 0, size)
            device.write(first, pinned)
            device.read_pinned(back, first)
            device.synchronize()
            compare(f"pinned copy of {size} bytes", data, bytes(back))
    return {"sizes": len(sizes), "largest": max(sizes)}


def bandwidth(plan: Plan) -> Figures:
    """Of copies, on the device's clock, where the same copy takes the same time each time."""
    device = Device(plan.device)
    hertz = device.properties().clock_hertz
    size = _size(plan, 2)
    ticks: dict[ActivityKind, list[int]] = {}
    with holding(plan) as held, emu_runtime.record_activity(plan.device) as records:
        buffer = held.pinned(size)
        first, second = held.alloc(size), held.alloc(size)
        for _ in range(2):
            device.write(first, buffer)
            device.copy(second, first, size)
            device.read_pinned(buffer, second)
    for record in records:
        ticks.setdefault(record.kind, []).append(record.ticks)
    figures: Figures = {"MiB": size // MIB}
    for kind, name in _PATHS.items():
        one, *rest = ticks.get(kind) or [0]
        if one <= 0 or rest != [one]:
            raise Finding(f"two copies of {size} bytes {name} took {[one, *rest]} ticks")
        figures[f"GB/s {name}"] = round(size / (one / hertz) / 1e9, 3)
    return figures


_PATHS = {
    ActivityKind.COPY_TO_DEVICE: "to device",
    ActivityKind.COPY_ON_DEVICE: "on device",
    ActivityKind.COPY_FROM_DEVICE: "from device",
}
