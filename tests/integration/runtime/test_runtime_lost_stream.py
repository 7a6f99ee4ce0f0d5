"""A stream that is lost: what it was to do is never called done, and the others go on.

Each script has one hang injected, which its first launch meets, and a watchdog of half a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from device_programs import EMPTY
from device_stack import served

from qualify.process import Completed

pytestmark = pytest.mark.integration

PRELUDE = f"""
import emu_runtime as emu
from emu_driver_shim import driver, faults
from emu_runtime.errors import EmuError, LaunchTimeoutError, QueueLostError, Scope

device = emu.Device(0)
empty = emu.Module(0, {EMPTY!r})
control = driver.Device(0)
hang = driver.CFault(
    kind=faults.FaultKind.HANG, queue=driver.ANY_QUEUE, command=faults.CommandKind.LAUNCH, times=1
)
control.inject(hang)


def launch(stream=None):
    empty.launch((1, 1, 1), b"", stream)


def told(call):
    try:
        return str(call())
    except EmuError as error:
        return f"{{type(error).__name__}} {{error.scope.name}}"


def lose(stream):
    launch(stream)
    return told(stream.synchronize)
"""

HangScript = Callable[[str], Completed]


@pytest.fixture
def hanging(
    site: Path, socket_folder: Path, script: Callable[..., Completed]
) -> Iterator[HangScript]:
    """Runs a script on a device whose next launch hangs."""
    with served(site, socket_folder, "--launch-seconds", "0.5"):
        yield lambda text: script(PRELUDE + text, EMU_DEVICE_DIR=str(socket_folder))


def said(done: Completed) -> list[str]:
    assert done.ok, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_what_a_reset_gave_up_is_never_done(hanging: HangScript) -> None:
    """A new stream takes the lost one's queue, whose timeline stands past what was given up."""
    done = hanging("""
first, other = emu.Stream(0), emu.Stream(0)
buffer = emu.PinnedBuffer(4096)
address = device.alloc(4096)
device.fill(address, 7, 4096)
device.synchronize()
before, after = emu.Event(0), emu.Event(0)
device.fill(address, 7, 4096, first)
before.record(first)
launch(first)
device.read_pinned(buffer, address, stream=first)
after.record(first)
print(told(first.synchronize))
first.destroy()
second = emu.Stream(0)
print(bytes(buffer) == bytes(4096), told(before.query))
print(told(after.query), told(after.synchronize), told(lambda: other.wait_event(after)))
print(told(second.query), told(second.synchronize), told(device.synchronize))
launch(second)
after.record(second)
after.synchronize()
print(told(after.query))
""")
    assert said(done) == [
        "LaunchTimeoutError QUEUE",
        "True True",
        "QueueLostError QUEUE QueueLostError QUEUE QueueLostError QUEUE",
        "True None None",
        "True",
    ]


def test_a_stream_has_nothing_of_what_a_destroyed_one_left(hanging: HangScript) -> None:
    """With a hang under way, which loses its queue, and more left undone than there are queues.

    What the others were to do is done all the same.
    """
    done = hanging("""
address = device.alloc(4096)
device.fill(address, 0, 4096)
device.synchronize()
first = emu.Stream(0)
launch(first)
first.destroy()
for turn in range(40):
    stream = emu.Stream(0)
    launch(stream)
    device.fill(address + turn, 1, 1, stream)
    stream.destroy()
last = emu.Stream(0)
launch(last)
print(told(last.synchronize), told(device.synchronize))
print(sum(device.read(address, 4096)))
""")
    assert said(done) == ["None None", "40"]


def test_other_streams_work_while_one_is_lost(hanging: HangScript) -> None:
    """Memory that the lost stream used comes back to them: staging, pinned, cached, timestamps."""
    done = hanging("""
lost, other = emu.Stream(0), emu.Stream(0)
data = bytes(range(256)) * 16
buffer = emu.PinnedBuffer(4096)
address = device.alloc(4096, other)
device.write(address, data, other)  # pageable; its staging is in use when the stream is lost
launch(lost)
device.write(device.alloc(4096, lost), data, lost)
device.write(device.alloc(4096, lost), buffer, lost)
buffer.free()
timed = emu.Event(0, timing=True)
timed.record(lost)
timed.destroy()
device.record(address, lost)
print(told(lost.synchronize))
for turn in range(3):
    device.write(address, data, other)
    print(device.read(address, 4096, other) == data)
    device.free(device.alloc(4096, other))
    emu.PinnedBuffer(4096).free()
    start, end = emu.Event(0, timing=True), emu.Event(0, timing=True)
    start.record(other)
    launch(other)
    end.record(other)
    print(start.elapsed(end)[0] > 0)
device.free(address)
print(told(device.empty_cache), device.memory_stats().allocated_bytes)
""")
    assert said(done) == ["LaunchTimeoutError QUEUE", *["True"] * 6, "None 8192"]


def test_other_streams_work_while_the_default_one_is_lost(hanging: HangScript) -> None:
    done = hanging("""
other = emu.Stream(0)
launch()
print(told(emu.Event(0).record), told(device.synchronize))
address = device.alloc(4096, other)
device.write(address, bytes(4096), other)
event = emu.Event(0, timing=True)
event.record(other)
event.synchronize()
print(told(event.query), told(launch))
""")
    assert said(done) == ["None LaunchTimeoutError QUEUE", "True QueueLostError QUEUE"]


def test_all_streams_are_waited_for_though_one_is_lost(hanging: HangScript) -> None:
    done = hanging("""
lost, other = emu.Stream(0), emu.Stream(0)
launch(lost)
for _ in range(50):
    launch(other)
print(told(device.synchronize), other.query())
lost.destroy()
print(told(device.synchronize))
""")
    assert said(done) == ["LaunchTimeoutError QUEUE True", "None"]
