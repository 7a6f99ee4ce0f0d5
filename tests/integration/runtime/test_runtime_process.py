"""The process around the runtime: fork, exit, shutdown, a device that dies."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from device_programs import EMPTY, SLOW

pytestmark = pytest.mark.integration

USE = f"""
import os, sys, array, threading, time, signal
import emu_runtime as emu
from emu_runtime.errors import EmuError, ForkedError, ShutDownError, DeviceLostError
SLOW = {SLOW!r}
EMPTY = {EMPTY!r}
device = emu.Device(0)
def use():
    address = device.alloc(4096)
    device.write(address, b"x" * 4096)
    assert device.read(address, 4096) == b"x" * 4096
    return address
def slow(stream=None, rounds=2000):
    flag = device.alloc(512)
    emu.Module(0, SLOW).launch((1, 1, 1), array.array("q", [flag, rounds]).tobytes(), stream)
"""


def test_a_child_forked_after_first_use_is_refused_and_the_parent_goes_on(script: Any) -> None:
    done = script(
        USE
        + """
use()
stream, event = emu.Stream(0), emu.Event(0)
pid = os.fork()
if pid == 0:
    for call in (use, stream.synchronize, event.query, lambda: emu.device_count(), device.reset):
        try:
            call()
        except ForkedError as error:
            assert "spawn" in str(error)
            print("refused")
    sys.stdout.flush()
    sys.exit(7)  # with finalizers and exit handlers
_, status = os.waitpid(pid, 0)
print("child", os.waitstatus_to_exitcode(status))
use()
print("parent goes on")
"""
    )
    assert done.stdout.splitlines() == ["refused"] * 5 + ["child 7", "parent goes on"], done.stderr
    assert done.ok, done.stderr


def test_a_child_forked_before_first_use_works(script: Any) -> None:
    done = script(
        USE
        + """
emu.load(); emu.device_count()
pid = os.fork()
if pid == 0:
    use(); emu.shutdown(); os._exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0, status
use()
"""
    )
    assert done.ok, done.stderr


LIVE = {
    "memory, stream and event": "a = use(); s = emu.Stream(0); e = emu.Event(0); e.record(s)",
    "work under way": "slow(); slow(emu.Stream(0))",
    "pinned memory with a copy under way": (
        "slow(); b = emu.PinnedBuffer(1 << 20); device.write(device.alloc(1 << 20), b)"
    ),
    "shutdown first, then finalizers": "s = emu.Stream(0); use(); slow(); emu.shutdown()",
    "shutdown twice": "use(); emu.shutdown(); emu.shutdown()",
    "a fault not asked for": (
        "use(); emu.Module(0, SLOW).launch((1, 1, 1), array.array('q', [1 << 36, 1]).tobytes())"
    ),
    "a daemon thread in a wait": (
        "s = emu.Stream(0); slow(s, 200_000)\n"
        "threading.Thread(target=s.synchronize, daemon=True).start(); time.sleep(0.05)"
    ),
    "a daemon thread that launches": (
        "m = emu.Module(0, EMPTY)\n"
        "def loop():\n"
        "    try:\n"
        "        while True: m.launch((1, 1, 1), b'')\n"
        "    except ShutDownError: pass\n"
        "threading.Thread(target=loop, daemon=True).start(); time.sleep(0.05)"
    ),
    "an exit handler that uses the device": (
        "import atexit\ns = emu.Stream(0)\natexit.register(lambda: (s.synchronize(), use()))"
    ),
    "killed device": "use(); os.kill(device.properties().emud_pid, signal.SIGKILL)",
    "no use at all": "emu.load()",
}


@pytest.mark.parametrize("live", LIVE.values(), ids=LIVE.keys())
def test_exit_with_live_objects_is_status_0(script: Any, live: str) -> None:
    done = script(f"{USE}\n{live}\nprint('end')\n")
    assert done.status == 0, done
    assert done.stdout == "end\n"
    assert done.stderr == ""


def test_a_device_that_does_not_answer_is_left(script: Any) -> None:
    """Stopped, not killed: nothing tells its clients, and each call waits for it."""
    done = script(
        f"{USE}\nuse()\npid = device.properties().emud_pid\n"
        "os.kill(pid, signal.SIGSTOP)\nprint(pid, flush=True)\n"
    )
    os.kill(int(done.stdout), signal.SIGCONT)  # it finds its client gone, and ends
    assert done.status == 0, done
    assert len(done.stderr.splitlines()) == 1
    assert "did not answer for 5 s" in done.stderr


def test_after_shutdown_every_call_says_so(script: Any) -> None:
    done = script(
        USE
        + """
s, e, m = emu.Stream(0), emu.Event(0), emu.Module(0, EMPTY)
a = use()
emu.shutdown()
calls = [use, s.synchronize, s.query, e.record, e.query, device.synchronize, device.memory_stats,
         device.properties, device.telemetry, device.counters, device.reset, emu.device_count,
         lambda: m.launch((1, 1, 1), b""), lambda: device.free(a), lambda: emu.PinnedBuffer(8)]
for call in calls:
    try:
        call()
    except ShutDownError:
        print("refused")
print(len(calls))
"""
    )
    lines = done.stdout.splitlines()
    assert lines[:-1] == ["refused"] * int(lines[-1]), done.stderr


def test_shutdown_ends_the_private_device(script: Any) -> None:
    done = script(
        USE
        + """
use()
pid = device.properties().emud_pid
assert os.path.exists(f"/proc/{pid}")
emu.shutdown()
deadline = time.monotonic() + 5
while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
    time.sleep(0.01)
print(os.path.exists(f"/proc/{pid}"))
"""
    )
    assert done.stdout == "False\n", done.stderr


def test_a_killed_device_is_lost_at_once_and_can_be_opened_again(script: Any) -> None:
    done = script(
        USE
        + """
use()
slow(rounds=10_000_000)
pid = device.properties().emud_pid
threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
begin = time.monotonic()
try:
    device.synchronize()
except DeviceLostError as error:
    print("lost", error.scope.name, time.monotonic() - begin < 5)
try:
    use()
except DeviceLostError:
    print("still lost")
device.reset()
use()
print("works again", device.properties().emud_pid != pid)
"""
    )
    assert done.stdout.splitlines() == ["lost DEVICE True", "still lost", "works again True"], done


def test_concurrent_first_use_opens_one_device(script: Any) -> None:
    done = script(
        USE
        + """
pids = []
threads = [threading.Thread(target=lambda: (use(), pids.append(device.properties().emud_pid)))
           for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(pids), len(set(pids)), device.telemetry().contexts)
"""
    )
    assert done.stdout == "8 1 1\n", done.stderr
