"""What goes wrong on the device is told by cause and scope, costs no more than that, and ends."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child import Finished, run_python
from gate0_health import programs

if TYPE_CHECKING:
    from gate0_health.serving import Node

PRELUDE = f"""
import json, os, struct, sys, time
import emu_runtime
from emu_runtime import errors
device = emu_runtime.Device(0)
affine = emu_runtime.Module(0, '''{programs.AFFINE}''')
word = device.alloc(8)
device.write(word, struct.pack("<q", 1))
def step(address=word):
    affine.launch((1, 1, 1), struct.pack("<qqq", address, 3, 1))
"""

# Goes on for as long as the file of its argument is not there; prints what came out.
BYSTANDER = (
    PRELUDE
    + """
import pathlib
steps = 0
ready, stop = map(pathlib.Path, sys.argv[1:])
while not stop.exists():
    step()
    device.synchronize()
    steps += 1
    ready.touch()
value = struct.unpack("<q", device.read(word, 8))[0]
expected = 1
for _ in range(steps):
    expected = (expected * 3 + 1 + 2**63) % 2**64 - 2**63
print(json.dumps([steps, value == expected]))
"""
)
BAD_ADDRESS = 0x3FFFFFF000
FAULTY = (
    PRELUDE
    + f"""
step()
device.synchronize()
step({BAD_ADDRESS})
try:
    device.synchronize()
except errors.PageFaultError as error:
    told = dict(address=error.address, program=error.program, command=error.command,
                scope=error.scope.name, cause=error.cause, text=str(error))
else:
    raise SystemExit("no fault")
try:
    device.alloc(8)
    device.synchronize()
except errors.EmuError as error:
    told["after"] = type(error).__name__
device.reset()
again = device.alloc(8)
device.write(again, b"12345678")
told["recovered"] = device.read(again, 8) == b"12345678"
print(json.dumps(told))
"""
)


def alive(pid: int) -> bool:
    """A process that ended and was not yet waited for is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, seconds: float = 10) -> bool:
    limit = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.check(
    "gate0.fault.page_fault_typed", obligations=["G0", "Q8", "R2"], kind="focused test"
)
def test_page_fault(node: Node, tmp_path: Path, detail: Callable[..., None]) -> None:
    """A wild address takes other users down, or the error does not say what it was."""
    ready, stop = tmp_path / "ready", tmp_path / "stop"
    other: list[Finished] = []
    thread = threading.Thread(
        target=lambda: other.append(run_python(BYSTANDER, str(ready), str(stop), env=node.env))
    )
    thread.start()
    try:
        limit = time.monotonic() + 30
        while not ready.exists() and thread.is_alive() and time.monotonic() < limit:
            time.sleep(0.01)
        done = run_python(FAULTY, env=node.env)
        time.sleep(0.2)  # the other context has to go on after the fault
    finally:
        stop.touch()
        thread.join()
    assert done.status == 0, done.told
    told = json.loads(done.stdout)
    detail(told)
    assert told["address"] == BAD_ADDRESS
    assert told["program"] == "affine"
    assert told["command"] > 0
    assert told["scope"] == "CONTEXT"
    assert hex(BAD_ADDRESS)[2:] in told["text"].lower()
    assert told.get("after") is not None, "a lost context went on as if nothing had been"
    assert told["recovered"]
    (bystander,) = other
    assert bystander.status == 0, bystander.told
    steps, right = json.loads(bystander.stdout)
    assert right and steps > 0


@pytest.mark.check("gate0.device.killed_says_lost", obligations=["G0", "Q8"], kind="focused test")
def test_killed(node: Node, tmp_path: Path) -> None:
    """The device process dies, and its users wait for ever or see something else."""
    ready = tmp_path / "ready"
    code = (
        PRELUDE
        + """
import pathlib, signal
step()
device.synchronize()
pathlib.Path(sys.argv[1]).touch()
signal.alarm(60)  # a wait that never ends is a failure too
start = time.monotonic()
try:
    while time.monotonic() - start < 50:
        step()
        device.synchronize()
except errors.DeviceLostError as error:
    print("lost", error)
"""
    )

    def kill() -> None:
        limit = time.monotonic() + 30
        while not ready.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        time.sleep(0.1)
        node.process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    done = run_python(code, str(ready), env=node.env, timeout=90)
    killer.join()
    assert done.status == 0, done.told
    assert done.stdout.startswith("lost "), done.told


@pytest.mark.check("gate0.shutdown.leaves_nothing", obligations=["G0"], kind="focused test")
@pytest.mark.parametrize("way", ["exit", "exception", "killed"])
def test_private_device_ends(way: str) -> None:
    """A process is gone, and its private device process stays behind with its memory."""
    end = {
        "exit": "sys.exit(0)",
        "exception": "raise ValueError('the cause')",
        "killed": "os.kill(os.getpid(), 9)",
    }[way]
    done = run_python(
        PRELUDE + f"step()\nprint(device.properties().emud_pid, flush=True)\n{end}",
        env={"EMU_DEVICE_DIR": "/nonexistent"},
    )
    assert done.status == {"exit": 0, "exception": 1, "killed": -signal.SIGKILL}[way], done.told
    pid = int(done.stdout)
    assert pid != os.getpid()
    assert ends(pid), f"emud {pid} is still there"


@pytest.mark.check("gate0.shutdown.node_is_removed", obligations=["G0"], kind="focused test")
def test_orderly_shutdown(node: Node) -> None:
    """A stopped device leaves its node behind, and the next user finds a device that is none."""
    used = run_python(PRELUDE + "step(); device.synchronize()", env=node.env)
    assert used.status == 0, used.told
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(10) == 0
    assert list(node.folder.glob("emu*")) == []
