"""Faults under PyTorch: what a lost stream costs, and what errors say.

Each script has a device of its own, whose watchdog waits half a second.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import emu_driver_shim
import pytest
from test_process import run

PRELUDE = """
import gc, time, emu_runtime, torch
from emu_driver_shim import driver, faults
control = driver.Device(0)
x = torch.arange(8.0, device="emu")
torch.accelerator.synchronize()


def inject(kind, command):
    control.inject(driver.CFault(kind=kind, queue=driver.ANY_QUEUE, command=command, times=1))


def lose(stream):
    inject(faults.FaultKind.HANG, faults.CommandKind.LAUNCH)
    with stream:
        x * 2
    return told(stream.synchronize)


def told(call):
    try:
        return str(call())
    except RuntimeError as error:
        return str(error)
"""

FaultScript = Callable[[str], list[str]]


@pytest.fixture
def faulty() -> Iterator[FaultScript]:
    """Runs a script and gives the lines that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        node = Path(folder) / "emu0"
        options = ("--foreground", "--node", node, "--devices", "2", "--launch-seconds", "0.5")
        emud = subprocess.Popen([emu_driver_shim.emud_path(), *options])
        try:
            end = time.monotonic() + 60
            while not node.exists():
                assert emud.poll() is None and time.monotonic() < end
                time.sleep(0.01)

            def script(text: str) -> list[str]:
                done = run(PRELUDE + text, EMU_DEVICE_DIR=folder)
                assert done.returncode == 0, done.stdout + done.stderr
                return done.stdout.splitlines()

            yield script
        finally:
            emud.terminate()
            emud.wait(60)


@pytest.mark.parametrize("priority", [0, -1])
def test_a_lost_stream_is_given_up(faulty: FaultScript, priority: int) -> None:
    """A pool that hands out a lost stream again breaks what has nothing to do with it, for ever."""
    (lost, *rest) = faulty(f"""
stream = torch.Stream(device="emu", priority={priority})
print(lose(stream).partition(". ")[0])
del stream
gc.collect()
for _ in range(20):
    other = torch.Stream(device="emu")
    with other:
        y = x * 3
    other.synchronize()
    assert torch.equal(y.cpu(), torch.arange(8.0) * 3)
print(told(torch.accelerator.synchronize))
""")
    assert "hangs" in lost
    assert rest == ["None"]


def test_a_loss_that_nobody_was_told_of_is_told(faulty: FaultScript) -> None:
    """By who makes the next stream, once: what the lost one was to compute would pass for done."""
    lines = faulty("""
def lose_untold(*streams):
    for stream in streams:
        before = emu_runtime.Device(0).telemetry().faults
        inject(faults.FaultKind.HANG, faults.CommandKind.LAUNCH)
        with stream:
            y = x * 3
        while emu_runtime.Device(0).telemetry().faults == before:
            time.sleep(0.05)


def make():
    return torch.Stream(device="emu")


def told_of():
    return [told(lambda: type(make()).__name__) for _ in range(3)]


lose_untold(make())
print(told_of())
lose_untold(make())  # which has the number of the one before
print(told_of())
lose_untold(make(), make())
print(told_of())
print(told(torch.accelerator.synchronize))
""")
    assert lines.pop() == "None"
    counts = [(line.count("hangs"), line.count("'Stream'")) for line in lines]
    assert counts == [(1, 2), (1, 2), (2, 1)], lines


def test_tensors_of_two_devices_are_refused(faulty: FaultScript) -> None:
    lines = faulty("""
a, b = (torch.ones(4, 4, device=f"emu:{n}") for n in range(2))
calls = {
    "mm": lambda: a @ b, "add": lambda: a + b, "bmm": lambda: torch.bmm(b[None], a[None]),
    "norm": lambda: torch.nn.functional.layer_norm(a, (4,), b[0]),
    "where": lambda: torch.where(a > 0, a, b),
}
for name, call in calls.items():
    print(name, "same device" in told(call))
print((a @ a).sum().item(), (b @ b).sum().item())
""")
    assert lines == [*(f"{n} True" for n in ("mm", "add", "bmm", "norm", "where")), "64.0 64.0"]


def test_what_an_error_says(faulty: FaultScript) -> None:
    """Cause and mend run into each other, or scope, stream and command are not told."""
    queue, context = faulty("""
print(lose(torch.Stream(device="emu")))
inject(faults.FaultKind.PAGE_FAULT, faults.CommandKind.LAUNCH)
x * 2
print(told(torch.accelerator.synchronize))
""")
    assert re.search(
        r"hangs: .*\. Destroy the stream .* scope queue, .*, stream 1, command \d+\]$", queue
    )
    assert re.search(r"\(injected fault \d+\)\. [A-Z][a-z]+ the .*, scope context, ", context)
