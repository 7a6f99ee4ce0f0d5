"""The caching allocator: no overlap, all given back, statistics that add up, whatever the order."""

from __future__ import annotations

from typing import Any

import pytest
from device_programs import SLOW, arguments
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.integration

MIB = 2**20
SIZES = st.one_of(
    st.integers(1, 4096),
    st.sampled_from([511, 512, 513, MIB - 1, MIB, MIB + 1, 3 * MIB, 10 * MIB, 10 * MIB + 1]),
    st.integers(1, 24 * MIB),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), SIZES, st.integers(0, 2)),
        st.tuples(st.just("free"), st.integers(0, 10**6), st.just(0)),
        st.tuples(st.just("record"), st.integers(0, 10**6), st.integers(0, 2)),
        st.tuples(st.just("empty"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """What is live, with a mark at both ends of each block that an overlap would destroy."""

    def __init__(self, emu: Any, device: Any, streams: list[Any]) -> None:
        self.emu, self.device, self.streams = emu, device, streams
        self.live: dict[int, tuple[int, Any, int]] = {}  # address: size, stream, mark
        self.count = 0

    def alloc(self, size: int, which: int) -> None:
        stream = self.streams[which]
        address = self.device.alloc(size, stream)
        assert address % 512 == 0
        for other, (length, _, _) in self.live.items():
            assert address + size <= other or other + length <= address
        self.count += 1
        mark = self.count % 255 + 1
        self.live[address] = (size, stream, mark)
        self.device.fill(address, mark, min(size, 64), stream)
        self.device.fill(address + size - min(size, 64), mark, min(size, 64), stream)

    def free(self, pick: int) -> None:
        if not self.live:
            return
        address = sorted(self.live)[pick % len(self.live)]
        size, stream, mark = self.live.pop(address)
        assert self.device.read(address, 1, stream) == bytes([mark])
        assert self.device.read(address + size - 1, 1, stream) == bytes([mark])
        self.device.free(address)

    def record(self, pick: int, which: int) -> None:
        if self.live:
            address = sorted(self.live)[pick % len(self.live)]
            self.device.record(address, self.streams[which])

    def check(self) -> None:
        stats = self.device.memory_stats()
        assert stats.allocations - stats.frees == len(self.live)
        asked = sum(-(-size // 512) * 512 for size, _, _ in self.live.values())
        assert asked <= stats.allocated_bytes <= stats.reserved_bytes
        assert stats.allocated_bytes <= stats.allocated_peak_bytes
        assert stats.reserved_bytes <= stats.reserved_peak_bytes


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_any_order_of_calls_keeps_the_invariants(emu: Any, steps: list[Any]) -> None:
    device = emu.Device(0)
    device.reset()
    model = Model(emu, device, [None, emu.Stream(0), emu.Stream(0)])
    for action, value, which in steps:
        match action:
            case "alloc":
                model.alloc(value, which)
            case "free":
                model.free(value)
            case "record":
                model.record(value, which)
            case "empty":
                device.empty_cache()
        model.check()
    while model.live:
        model.free(0)
    device.empty_cache()
    stats = device.memory_stats()
    assert stats.allocated_bytes == stats.reserved_bytes == 0
    assert stats.driver_allocations == stats.driver_frees
    assert stats.allocations == stats.frees


def test_a_freed_block_is_reused_on_its_stream_without_the_driver(device: Any) -> None:
    first = device.alloc(5000)
    device.free(first)
    assert device.alloc(4700) == first  # the same 5,120 bytes after rounding
    assert device.memory_stats().driver_allocations == 1


def test_neighbours_merge_when_they_are_free(device: Any) -> None:
    blocks = [device.alloc(512 * 1024) for _ in range(4)]  # one segment of 2 MiB
    for address in blocks:
        device.free(address)
    device.alloc(MIB)
    device.alloc(MIB)
    assert device.memory_stats().driver_allocations == 1


def test_a_block_in_use_on_another_stream_is_not_reused_before_it_passed(
    emu: Any, device: Any
) -> None:
    other = emu.Stream(0)
    flag = device.alloc(512)
    block = device.alloc(4096)
    slow = emu.Module(0, SLOW)
    slow.launch((1, 1, 1), arguments(flag, 20_000), other)
    device.copy(flag, block, 4, other)  # the use of the block, after the slow program
    device.record(block, other)
    device.free(block)
    while_busy = device.alloc(4096)
    assert not other.query(), "the slow program was too fast for this test to tell anything"
    assert while_busy != block
    other.synchronize()
    assert device.alloc(4096) == block


def test_a_block_that_only_its_own_stream_used_is_reused_at_once(emu: Any, device: Any) -> None:
    stream = emu.Stream(0)
    flag = device.alloc(512, stream)
    block = device.alloc(4096, stream)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000), stream)
    device.free(block)
    assert device.alloc(4096, stream) == block


def test_streams_do_not_share_blocks(emu: Any, device: Any) -> None:
    first = device.alloc(4096)
    device.free(first)
    second = device.alloc(4096, emu.Stream(0))
    assert second != first


def test_a_second_free_and_foreign_addresses_are_errors(emu: Any, device: Any) -> None:
    address = device.alloc(4096)
    keep = device.alloc(4096)
    device.free(address)
    with pytest.raises(emu.errors.InvalidArgumentError, match="freed before"):
        device.free(address)
    with pytest.raises(emu.errors.InvalidArgumentError, match="expected its start"):
        device.free(keep + 512)
    with pytest.raises(emu.errors.InvalidArgumentError, match="is not memory of this process"):
        device.free(1 << 37)
    with pytest.raises(emu.errors.InvalidArgumentError, match="memory_record"):
        device.record(address, None)
    device.free(keep)


def test_after_a_reset_only_what_was_handed_out_is_from_before_it(emu: Any, device: Any) -> None:
    freed, held = device.alloc(4096), device.alloc(4096)
    device.free(freed)
    device.reset()
    for wild in (1, 0x1234567, 1 << 37, freed, held + 512, held + 4096):
        with pytest.raises(emu.errors.InvalidArgumentError, match="is not memory of this process"):
            device.free(wild)
    for old in (held, held + 4095):
        with pytest.raises(emu.errors.StaleHandleError, match="before a reset"):
            device.fill(old, 0, 1)
    device.free(held)
    with pytest.raises(emu.errors.InvalidArgumentError, match="is not memory of this process"):
        device.free(held)
    with pytest.raises(emu.errors.PageFaultError):
        device.fill(0x1234567, 0, 1)
        device.synchronize()


def test_nothing_is_an_address_too(device: Any) -> None:
    assert device.alloc(0) == 0
    device.free(0)
    assert device.memory_stats().allocations == 0


def test_peaks_are_reset(device: Any) -> None:
    device.free(device.alloc(MIB))
    assert device.memory_stats().allocated_peak_bytes == MIB
    device.reset_peaks()
    assert device.memory_stats().allocated_peak_bytes == 0


def test_out_of_memory_says_what_is_held_and_the_process_goes_on(emu: Any, device: Any) -> None:
    total = device.properties().memory_bytes
    held = device.alloc(64 * MIB)
    cached = device.alloc(32 * MIB)
    device.free(cached)
    with pytest.raises(emu.errors.OutOfMemoryError) as caught:
        device.alloc(total)
    text = str(caught.value)
    assert f"requested {total} bytes" in text
    assert f"free {total - 64 * MIB} of {total} bytes" in text  # the cached part went back first
    assert f"this process holds {64 * MIB}, of which 0 are cached" in text
    assert device.memory_stats().out_of_memory == 1
    device.free(held)
    assert device.alloc(total - 64 * MIB) > 0  # all of it is free again


def test_cached_memory_is_given_back_before_a_request_fails(device: Any) -> None:
    total = device.properties().memory_bytes
    large = total // 8 * 5
    first = device.alloc(large)
    device.free(first)
    device.alloc(total // 8 * 6)
    assert device.memory_stats().driver_frees == 1


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_absurd_sizes_are_out_of_memory(emu: Any, device: Any, size: int) -> None:
    with pytest.raises(emu.errors.OutOfMemoryError):
        device.alloc(size)
