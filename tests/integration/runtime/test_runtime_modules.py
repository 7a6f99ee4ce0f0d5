"""Modules are loaded once, by content; activity records say what ran, when and for whom."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest
from device_programs import EMPTY, SLOW, WRITE, arguments

pytestmark = pytest.mark.integration


def test_the_same_text_is_loaded_once(emu: Any, device: Any) -> None:
    before = device.counters()
    modules = [emu.Module(0, WRITE) for _ in range(5)]
    after = device.counters()
    assert len({module.handle for module in modules}) == 1
    assert after.module_misses - before.module_misses == 1
    assert after.module_hits - before.module_hits == 4
    assert emu.Module(0, WRITE + " ").handle != modules[0].handle


def test_concurrent_first_uses_load_once(emu: Any, device: Any) -> None:
    before = device.counters()
    barrier = threading.Barrier(8)
    handles = []

    def get() -> None:
        barrier.wait()
        handles.append(emu.Module(0, SLOW).handle)

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 8
    assert len(set(handles)) == 1
    assert device.counters().module_misses - before.module_misses == 1


def test_a_record_for_each_command_with_its_cause(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    stream = emu.Stream(0)
    write = emu.Module(0, WRITE)
    device.synchronize()
    with emu.record_activity() as records:
        with emu.correlation(11):
            write.launch((3, 2, 1), arguments(address, 1), stream)
            with emu.correlation(12):
                device.fill(address, 0, 256, stream)
            device.copy(address, address + 256, 128, stream)
        device.read(address, 64, stream)
    kinds = [(r.kind.name, r.correlation, r.bytes) for r in records]
    assert kinds == [
        ("LAUNCH", 11, 0),
        ("FILL", 12, 256),
        ("COPY_ON_DEVICE", 11, 128),
        ("COPY_FROM_DEVICE", 0, 64),
    ]
    assert [r.stream for r in records] == [stream.id] * 4
    commands = [r.command for r in records]
    assert commands == list(range(commands[0], commands[0] + 4))
    assert (records[0].program, records[0].grid) == ("write", (3, 2, 1))
    for record in records:
        assert record.start_ticks < record.end_ticks
        assert record.start_ns <= record.end_ns
        assert record.status == 0
    assert all(a.end_ticks <= b.start_ticks for a, b in pairwise(records))


def test_records_are_off_until_enabled(emu: Any, device: Any) -> None:
    emu.Module(0, EMPTY).launch((1, 1, 1), b"")
    device.synchronize()
    with emu.record_activity() as records:
        pass
    assert records == []


def test_a_context_that_opens_while_recording_is_recorded(emu: Any, device: Any) -> None:
    with emu.record_activity() as records:
        emu.Module(0, EMPTY).launch((1, 1, 1), b"")  # the fixture's reset left none open
    assert [record.program for record in records] == ["empty"]


def test_correlation_is_of_the_thread(emu: Any, device: Any) -> None:
    module = emu.Module(0, EMPTY)
    with emu.record_activity() as records:
        with emu.correlation(5):
            thread = threading.Thread(target=module.launch, args=((1, 1, 1), b""))
            thread.start()
            thread.join()
        emu.library.table().correlation_pop()  # one too many does nothing
    assert [record.correlation for record in records] == [0]


def test_launches_are_counted(emu: Any, device: Any) -> None:
    before = device.counters().launches
    module = emu.Module(0, EMPTY)
    for _ in range(10):
        module.launch((1, 1, 1), b"")
    assert device.counters().launches - before == 10
