"""Copies of every size around the staging buffer's, and when a host buffer may be reused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_programs import SLOW, arguments

pytestmark = pytest.mark.integration

PIECE = 4 * 2**20  # of staging: emurt::Staging::kPiece
SIZES = [
    *(1, 63, 64, 65, 4095, 4096),
    *(PIECE - 1, PIECE, PIECE + 1),
    *(2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 1, 3 * PIECE + 7, 8 * PIECE),
]


def busy(emu: Any) -> bool:
    """Whether the default stream still works on what was submitted to it."""
    event = emu.Event(0)
    event.record()
    return not event.query()


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_pageable_round_trip(device: Any, size: int) -> None:
    data = noise(size)
    address, other = device.alloc(size), device.alloc(size)
    device.write(address, data)
    device.copy(other, address, size)
    assert device.read(other, size) == data


@pytest.mark.parametrize("size", SIZES)
def test_pinned_round_trip(emu: Any, device: Any, size: int) -> None:
    data = noise(size)
    source, target = emu.PinnedBuffer(size), emu.PinnedBuffer(size)
    source.fill_from(data)
    address = device.alloc(size)
    device.write(address, source)
    device.read_pinned(target, address)
    device.synchronize()
    assert bytes(target) == data
    source.free()
    target.free()


def test_a_pageable_source_may_be_reused_on_return(emu: Any, device: Any) -> None:
    """The stream is held up, so the device reads only after the source was overwritten."""
    flag = device.alloc(512)
    address = device.alloc(PIECE)
    source = bytearray(b"a" * PIECE)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000))
    device.write(address, source)
    assert busy(emu)
    source[:] = b"b" * PIECE
    assert device.read(address, PIECE) == b"a" * PIECE


def test_a_pinned_source_is_read_when_the_stream_gets_there(emu: Any, device: Any) -> None:
    """The other side: it may not be reused before its event, and this test can tell."""
    flag = device.alloc(512)
    address = device.alloc(16)
    source = emu.PinnedBuffer(16)
    source.fill_from(b"a" * 16)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000))
    device.write(address, source)
    assert busy(emu)
    source.fill_from(b"b" * 16)
    assert device.read(address, 16) == b"b" * 16


def test_pinned_memory_is_not_handed_out_while_a_copy_uses_it(emu: Any, device: Any) -> None:
    flag, address = device.alloc(512), device.alloc(4096)
    first = emu.PinnedBuffer(4096)
    first.fill_from(b"a" * 4096)
    where = first.address
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000))
    device.write(address, first)
    first.free()
    taken = [emu.PinnedBuffer(4096) for _ in range(600)]  # more than a slab holds
    assert busy(emu)
    assert where not in [buffer.address for buffer in taken]
    device.synchronize()
    for buffer in taken:
        buffer.free()
    later = [emu.PinnedBuffer(4096) for _ in range(1200)]
    assert where in [buffer.address for buffer in later]
    for buffer in later:
        buffer.free()


def test_pinned_memory_is_told_from_pageable(emu: Any, device: Any) -> None:
    api = emu.library.table()
    buffer = emu.PinnedBuffer(1000)
    assert api.host_is_pinned(buffer.address) == 1
    assert api.host_is_pinned(buffer.address + 999) == 1
    assert api.host_is_pinned(id(buffer)) == 0
    address = buffer.address
    buffer.free()
    assert api.host_is_pinned(address) == 0


def test_errors_of_pinned_memory(emu: Any, device: Any) -> None:
    api = emu.library.table()
    buffer = emu.PinnedBuffer(512)
    address = device.alloc(4096)
    too_long = (0, None, 1, buffer.address, address, 0, 4096)
    assert api.copy(*too_long) == emu.errors.InvalidArgumentError.code
    assert "leave the pinned block of 512 bytes" in str(emu.library.last_error(api))
    where = buffer.address
    buffer.free()
    assert api.copy(0, None, 1, where, address, 0, 512) == emu.errors.InvalidArgumentError.code
    assert "was freed" in str(emu.library.last_error(api))
    assert api.host_free(where) == emu.errors.InvalidArgumentError.code
    assert "freed before" in str(emu.library.last_error(api))
    assert api.host_free(4096) == emu.errors.InvalidArgumentError.code


def test_bytes_are_counted_by_direction(emu: Any, device: Any) -> None:
    before = device.counters()
    address = device.alloc(2 * PIECE + 1)
    device.write(address, noise(2 * PIECE + 1))
    device.read(address, 1000)
    device.copy(address, address + 4096, 100)
    after = device.counters()
    assert after.bytes_to_device - before.bytes_to_device == 2 * PIECE + 1
    assert after.bytes_from_device - before.bytes_from_device == 1000
    assert after.bytes_on_device - before.bytes_on_device == 100
    assert after.copies_to_device - before.copies_to_device == 1


def test_many_small_copies_do_not_wait_for_each_other(emu: Any, device: Any) -> None:
    """A busy stream takes more pageable copies than there are staging buffers."""
    flag = device.alloc(512)
    address = device.alloc(64 * 512)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000))
    for index in range(64):
        device.write(address + 512 * index, bytes([index]) * 512)
    assert busy(emu), "the copies waited for the slow program"
    for index in range(64):
        assert device.read(address + 512 * index, 512) == bytes([index]) * 512


def test_zero_bytes_and_bad_kinds(emu: Any, device: Any) -> None:
    device.write(0, b"")
    assert device.read(0, 0) == b""
    device.copy(0, 0, 0)
    device.fill(0, 1, 0)
    api = emu.library.table()
    assert api.copy(0, None, 9, None, 0, 0, 1) == emu.errors.InvalidArgumentError.code
    assert api.copy(0, None, 1, None, 0, 0, 1) == emu.errors.InvalidArgumentError.code
