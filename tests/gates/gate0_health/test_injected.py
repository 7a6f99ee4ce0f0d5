"""Each injected fault is found, blamed on its command, and recovered from at its scope.

For each kind, and each scope at which the struck client may try to recover: it works again from
the scope of the kind on, and not below. A second client works beside it, and is right all the
time; it is told when the device or the host is lost with it. The trials take the configurations in
turn, each kind from one further on: all of them in every configuration would take too long.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from child import Finished, run_python
from gate0_health import programs
from gate0_health.serving import Configuration, Node, served

VICTIM = """
import runpy, sys
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
VICTIM_FILE = str(Path(__file__).with_name("victim.py"))
SCOPES = ("command", "queue", "context", "device", "host")
MOST_COMMAND = 8
SEED = 20
WATCHDOG_SECONDS = "0.2"

BYSTANDER = """
import json, pathlib, struct, sys, time
import emu_runtime
from emu_runtime import errors
ready, stop, affine = sys.argv[1:]
device = emu_runtime.Device(0)
module, word = emu_runtime.Module(0, affine), device.alloc(8)
value = 1
device.write(word, struct.pack("<Q", value))
told = dict(steps=0, right=True, error=None)
try:
    while not pathlib.Path(stop).exists():
        module.launch((1, 1, 1), struct.pack("<Qqq", word, 3, 1))
        value = (value * 3 + 1) % 2**64
        told["right"] &= struct.unpack("<Q", device.read(word, 8))[0] == value
        told["steps"] += 1
        pathlib.Path(ready).touch()
        time.sleep(0.005)
except errors.EmuError as error:
    told["error"] = type(error).__name__
print(json.dumps(told))
"""

USER = """
import struct, sys
import emu_runtime
device = emu_runtime.Device(0)
word = device.alloc(8)
device.write(word, struct.pack("<Q", 1))
emu_runtime.Module(0, sys.argv[1]).launch((1, 1, 1), struct.pack("<Qqq", word, 3, 1))
print(struct.unpack("<Q", device.read(word, 8))[0])
"""


class Kind(NamedTuple):
    """What is found of a fault: an error of this class, or figures of telemetry.

    `figures` are what they have to be; those of `grows` are more than they were.
    """

    scope: str
    error: str | None = None
    figures: Mapping[str, int] = MappingProxyType({})
    grows: tuple[str, ...] = ()


KINDS = {
    "BIT_CORRECTED": Kind("command", figures={"ecc_corrected": 1}),
    "BIT_UNCORRECTED": Kind("context", "BitError", {"ecc_uncorrected": 1}),
    "HANG": Kind("queue", "LaunchTimeoutError"),
    "LOST_DOORBELL": Kind("command"),
    "PAGE_FAULT": Kind("context", "PageFaultError"),
    "THERMAL_TRIP": Kind("device", "ThermalTripError", {"throttle": 3}),
    "FIRMWARE_CRASH": Kind("device", "FirmwareCrashError"),
    "SLOW": Kind("command", grows=("throttled_ticks",)),
}
TOLD_OF_LOSS = (
    "ContextLostError",
    "DeviceLostError",
    "FirmwareCrashError",
    "StaleHandleError",
    "ThermalTripError",
)


def reaches(scope: str, other: str) -> bool:
    return SCOPES.index(scope) >= SCOPES.index(other)


def was_detected(kind: Kind, told: dict[str, Any]) -> bool:
    figures = all(told[name] == figure for name, figure in kind.figures.items())
    figures &= all(told[name] > 0 for name in kind.grows)
    if kind.error is None:
        return bool(told["event"]) and told["error"] is None and told["right"] and figures
    return told["error"] == kind.error and told["scope"] == kind.scope.upper() and figures


def was_blamed(kind: Kind, told: dict[str, Any]) -> bool:
    event = told["event"]
    blamed = event.get("command") == told["struck"] > 0 and event["queue"] is not None
    if kind.error is not None:
        blamed &= told["command"] == told["struck"] and told["program"] == "affine"
    return bool(blamed)


def beside_a_bystander(node: Node, act: Callable[[], None]) -> dict[str, Any]:
    """What a second client tells, which works from before `act` until after it."""
    ready, stop = node.folder / "ready", node.folder / "stop"
    for mark in (ready, stop):
        mark.unlink(missing_ok=True)
    others: list[Finished] = []
    words = (str(ready), str(stop), programs.AFFINE)
    thread = threading.Thread(
        target=lambda: others.append(run_python(BYSTANDER, *words, env=node.env))
    )
    thread.start()
    try:
        limit = time.monotonic() + 30
        while not ready.exists() and thread.is_alive() and time.monotonic() < limit:
            time.sleep(0.01)
        act()
        time.sleep(0.05)  # for a step after it
    finally:
        stop.touch()
        thread.join()
    (other,) = others
    assert other.status == 0, other.told
    told: dict[str, Any] = json.loads(other.stdout)
    return told


def trial(
    folder: Path, configuration: Configuration, name: str, command: int, scope: str
) -> tuple[dict[str, Any], Any]:
    """The victim's and the bystander's words."""
    told: dict[str, Any] = {}
    options = [*configuration.options, "--launch-seconds", WATCHDOG_SECONDS]
    with served(folder, *options) as node:

        def act() -> None:
            words = (VICTIM_FILE, name, str(command), scope, programs.AFFINE)
            done = run_python(VICTIM, *words, env=node.env)
            assert done.status == 0, done.told
            told.update(json.loads(done.stdout))
            if scope == "host":
                node.process.kill()
                node.process.wait()

        other = beside_a_bystander(node, act)
    if scope == "host":
        with served(folder, *options) as again:
            user = run_python(USER, programs.AFFINE, env=again.env)
        told["works"] = user.stdout == "4\n"
    return told, other


@pytest.mark.check("gate0.fault.injected", obligations=["G0", "Q8", "R2"], kind="focused test")
@pytest.mark.parametrize("name", KINDS)
def test_injected(
    name: str,
    every_configuration: list[Configuration],
    tmp_path: Path,
    detail: Callable[..., None],
) -> None:
    """A fault goes unseen, is blamed on another's command, or costs more or less than it says."""
    kind = KINDS[name]
    draw = random.Random(f"{SEED} {name}")
    counts = dict.fromkeys(("detected", "blamed", "recovered", "others"), 0)
    tried: dict[str, str] = {}
    wrong: list[Any] = []
    for turn, scope in enumerate(SCOPES, list(KINDS).index(name)):
        configuration = every_configuration[turn % len(every_configuration)]
        tried[scope] = str(configuration)
        command = draw.randint(1, MOST_COMMAND)
        told, other = trial(tmp_path, configuration, name, command, scope)
        lost = reaches(kind.scope, "device") or reaches(scope, "device")
        good = other["right"] and other["steps"] > 0
        seen = {
            "detected": was_detected(kind, told),
            "blamed": was_blamed(kind, told),
            "recovered": told["works"] == reaches(scope, kind.scope),
            "others": good and (other["error"] in TOLD_OF_LOSS if lost else not other["error"]),
        }
        for what, holds in seen.items():
            counts[what] += holds
        if not all(seen.values()):
            wrong.append([scope, tried[scope], seen, told, other])
    detail(seed=SEED, scope=kind.scope, scopes_tried=len(SCOPES), configurations=tried, **counts)
    assert not wrong, wrong
