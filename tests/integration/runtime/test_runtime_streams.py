"""Order: within a stream, between streams by events, and on the host by waiting."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from device_programs import EMPTY, SLOW, WRITE, arguments

pytestmark = pytest.mark.integration


def word(device: Any, address: int, stream: Any = None) -> int:
    return int.from_bytes(device.read(address, 4, stream), "little")


def device_done(emu: Any) -> bool:
    """Whether the default stream has done all that was submitted to it."""
    event = emu.Event(0)
    event.record()
    return bool(event.query())


def test_commands_of_a_stream_run_in_order(emu: Any, device: Any) -> None:
    stream = emu.Stream(0)
    address = device.alloc(512)
    write = emu.Module(0, WRITE)
    for number in range(500):
        write.launch((1, 1, 1), arguments(address, number), stream)
    assert word(device, address, stream) == 499


def test_launch_is_asynchronous_and_query_tells(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    stream = emu.Stream(0)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(address, 20_000), stream)
    assert not stream.query()
    stream.synchronize()
    assert stream.query()


def test_a_stream_waits_for_an_event_of_another(emu: Any, device: Any) -> None:
    first, second = emu.Stream(0), emu.Stream(0)
    flag, seen, other = (device.alloc(512) for _ in range(3))
    device.fill(flag, 0, 4)
    device.fill(seen, 7, 4)
    device.synchronize()
    event = emu.Event(0)
    # Several commands: the device takes them from its queues in turn, one at a time.
    for _ in range(4):
        emu.Module(0, SLOW).launch((1, 1, 1), arguments(other, 5_000), first)
    emu.Module(0, WRITE).launch((1, 1, 1), arguments(flag, 1), first)
    event.record(first)
    assert not event.query()
    second.wait_event(event)
    device.copy(seen, flag, 4, second)
    assert word(device, seen, second) == 1
    assert event.query()


def test_without_an_event_the_other_stream_does_not_wait(emu: Any, device: Any) -> None:
    """So that the test above can tell: two streams have no order of their own."""
    first, second = emu.Stream(0), emu.Stream(0)
    flag = device.alloc(512)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(flag, 20_000), first)
    done = emu.Event(0)
    done.record(second)
    assert done.query()
    assert not first.query()


def test_an_event_means_the_record_and_not_what_follows(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    event = emu.Event(0)
    emu.Module(0, WRITE).launch((1, 1, 1), arguments(address, 1))
    event.record()
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(address, 20_000))
    event.synchronize()
    assert event.query()
    assert not device_done(emu)
    device.synchronize()


def test_an_event_that_was_never_recorded_is_done(emu: Any, device: Any) -> None:
    event = emu.Event(0)
    assert event.query()
    event.synchronize()
    emu.Stream(0).wait_event(event)


def test_elapsed_is_device_time_and_repeats(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    slow = emu.Module(0, SLOW)
    times = []
    for rounds in (100, 100, 1000):
        start, end = emu.Event(0, timing=True), emu.Event(0, timing=True)
        start.record()
        slow.launch((1, 1, 1), arguments(address, rounds))
        end.record()
        times.append(start.elapsed(end)[0])
    assert times[0] > 0
    assert times[0] == times[1]
    assert times[2] > 5 * times[0]
    with emu.record_activity() as records:
        slow.launch((1, 1, 1), arguments(address, 1000))
    milliseconds = records[0].ticks / device.properties().clock_hertz * 1e3
    assert times[2] == pytest.approx(milliseconds, rel=0.05)


def test_elapsed_needs_timing_and_records(emu: Any, device: Any) -> None:
    start, end = emu.Event(0), emu.Event(0)
    start.record()
    end.record()
    with pytest.raises(emu.errors.InvalidArgumentError, match="with timing"):
        start.elapsed(end)
    with pytest.raises(emu.errors.InvalidArgumentError, match="recorded"):
        emu.Event(0, timing=True).elapsed(emu.Event(0, timing=True))


def test_timing_events_have_slots_of_their_own(emu: Any, device: Any) -> None:
    events = [emu.Event(0, timing=True) for _ in range(600)]
    empty = emu.Module(0, EMPTY)
    for event in events:
        event.record()
        empty.launch((1, 1, 1), b"")
    device.synchronize()
    elapsed = [first.elapsed(second)[0] for first, second in pairwise(events)]
    assert all(time > 0 for time in elapsed)
    assert sum(elapsed) == pytest.approx(events[0].elapsed(events[-1])[0])


def test_stream_ids(emu: Any, device: Any) -> None:
    api = emu.library.table()
    assert api.stream_id(0, None) == 0
    first, second = emu.Stream(0), emu.Stream(0, priority=-1)
    assert 0 < first.id != second.id > 0
    first.destroy()
    assert first.id == 2**64 - 1


def test_destroyed_and_foreign_handles_are_stale(emu: Any, device: Any) -> None:
    stream, event = emu.Stream(0), emu.Event(0)
    stream.destroy()
    event.destroy()
    for use in (stream.synchronize, stream.query, stream.destroy, event.synchronize, event.query):
        with pytest.raises(emu.errors.StaleHandleError, match="is not a live"):
            use()


def test_a_destroyed_stream_still_does_its_work(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    device.fill(address, 0, 4)
    device.synchronize()
    stream = emu.Stream(0)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(address, 2_000), stream)
    stream.destroy()
    device.synchronize()
    assert word(device, address) == 1


def test_streams_made_and_destroyed_for_ever_need_no_new_queues(emu: Any, device: Any) -> None:
    for _ in range(200):
        emu.Stream(0).destroy()
    assert device.telemetry().queues <= 3


def test_after_a_reset_all_handles_are_stale(emu: Any, device: Any) -> None:
    stream, event, module = emu.Stream(0), emu.Event(0), emu.Module(0, EMPTY)
    address = device.alloc(512)
    device.reset()
    with pytest.raises(emu.errors.StaleHandleError):
        stream.synchronize()
    with pytest.raises(emu.errors.StaleHandleError):
        event.query()
    with pytest.raises(emu.errors.StaleHandleError):
        module.launch((1, 1, 1), b"")
    with pytest.raises(emu.errors.StaleHandleError, match="before a reset"):
        device.fill(address, 0, 512)
    device.free(address)  # nothing: the memory went with the reset
    assert device.memory_stats().frees == 0
    emu.Module(0, EMPTY).launch((1, 1, 1), b"")
    device.synchronize()


def test_a_reset_ends_what_runs_and_lets_who_waits_go(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    emu.Module(0, SLOW).launch((1, 1, 1), arguments(address, 1 << 40))
    told: list[BaseException] = []
    under_way = threading.Event()

    def wait() -> None:
        under_way.set()
        try:
            device.synchronize()
        except emu.errors.EmuError as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    under_way.wait()
    time.sleep(0.5)  # from there to the wait are a few instructions
    start = time.monotonic()
    device.reset()
    assert time.monotonic() - start < 5
    waiting.join(5)
    assert not waiting.is_alive()
    assert isinstance(told[0], emu.errors.StaleHandleError) and "reset" in str(told[0])
    assert device.read(device.alloc(512), 512) == bytes(512)


def test_threads_on_their_own_streams(emu: Any, device: Any) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = emu.Stream(0)
            write = emu.Module(0, WRITE)
            for turn in range(200):
                address = device.alloc(512 * (turn % 7 + 1), stream)
                write.launch((1, 1, 1), arguments(address, number * 1000 + turn), stream)
                assert word(device, address, stream) == number * 1000 + turn
                device.free(address)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
