"""One context can't read or change another's memory, whatever it names: the paths tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from child import run_python
from gate0_health import raw

if TYPE_CHECKING:
    from gate0_health.serving import Node

SECRET = b"secret!!"

# Holds memory of a known pattern until its standard input ends, then says whether it is as it was.
# Address spaces of processes begin alike: the address that it tells lies further on than an
# attacker has memory itself, so that whoever gets bytes from there has them from here.
VICTIM = f"""
import json, sys
import emu_runtime
device = emu_runtime.Device(0)
whole = {SECRET!r} * (5 << 20)
block = device.alloc(len(whole))
device.write(block, whole)
pinned = emu_runtime.PinnedBuffer(4096)
pinned.fill_from(whole[:4096])
device.synchronize()
print(block + (32 << 20), flush=True)
sys.stdin.read()
print(json.dumps([device.read(block, len(whole)) == whole, bytes(pinned) == whole[:4096]]))
"""

# Each with the address that it may not touch in s0, one of its own in s1, and their distance in s2.
ATTACKS = {
    "load": "load.i64 v0, s0",
    "uniform load": "sload.i64 s4, s0",
    "strided load": "const.i64 s4, 8\nloads.i64 v0, s0, s4",
    "load with a stride from its own memory": "loads.i64 v0, s1, s2",
    "gather": "const.i64 v1, 0\ngather.i64 v0, s0, v1",
    "gather from its own memory": "mov.i64 v1, s2\ngather.i64 v0, s1, v1",
    "bounded gather": "const.i64 v1, 0\nconst.i64 s4, 1\ngatherb.fault.i64 v0, s0, v1, s4",
    "bounded gather from its own memory": "const.i64 s4, 8\ndiv.i64 s5, s2, s4\nmov.i64 v1, s5\n"
    "const.i64 s6, 0x7fffffffffffffff\ngatherb.fault.i64 v0, s1, v1, s6",
    "tile load": "const.i64 s4, 8\nconst.i64 s5, 64\nmload.f64 m0, s0, s5, s4, s4",
    "tile load by column": "const.i64 s4, 8\nconst.i64 s5, 64\nmload.column.f64 m0, s0, s5, s4, s4",
    "store": "lane.i64 v0\nstore.i64 v0, s0",
    "uniform store": "sstore.i64 s2, s0",
    "strided store": "lane.i64 v0\nconst.i64 s4, 8\nstores.i64 v0, s0, s4",
    "scatter": "lane.i64 v0\nconst.i64 v1, 0\nscatter.i64 v0, s0, v1",
    "scatter from its own memory": "lane.i64 v0\nmov.i64 v1, s2\nscatter.i64 v0, s1, v1",
    "bounded scatter": "lane.i64 v0\nconst.i64 s4, 64\nscatterb.drop.i64 v0, s0, v0, s4",
    "tile store": "const.i64 s4, 8\nconst.i64 s5, 64\nmzero.f64 m0, s4, s4\nmstore.f64 m0, s0, s5",
    "atomic addition": "lane.i64 v0\nconst.i64 v1, 0\nred.add.i64 v0, s0, v1",
    "atomic swap": "lane.i64 v0\nconst.i64 v1, 0\nconst.i64 v2, 0\natom.swap.i64 v2, s0, v1, v0",
    "compare and swap": "lane.i64 v0\nconst.i64 v1, 0\nconst.i64 v2, 0\ncas.i64 v2, s0, v1, v0, v0",
}
ATTACKER = """
import json, struct, sys
import emu_runtime
from emu_runtime.errors import EmuError

attacks, victim = json.loads(sys.argv[1])
device = emu_runtime.Device(0)
space = 1 << 38
found = {}

def attempt(name, act):
    try:
        act()
        device.synchronize()
        found[name] = "worked"
    except EmuError as error:
        found[name] = type(error).__name__
    if found[name] != "worked":
        device.reset()

def launch(text, target, moved=False):
    own = device.alloc(4096)
    if moved:
        target += own // space * space
    program = ".program attack\\n.lanes 64\\n.args 24\\n" + "\\n".join(
        f"arg.i64 s{n}, {8 * n}" for n in range(3)) + "\\n" + text + "\\nexit\\n"
    module = emu_runtime.Module(0, program)
    module.launch((1, 1, 1), struct.pack("<3q", target, own, target - own))

for name, text in attacks.items():
    attempt(name, lambda: launch(text, victim))
    # A process's first space begins at 0, and each later one, as after a fault, further on.
    attempt(f"{name}, moved to its own space", lambda: launch(text, victim % space, True))
# As if the spaces of contexts lay one after another, and what wraps or is negative.
for where in (victim + space, victim - space, victim + (1 << 63) - space, -victim, space - 8, 0):
    attempt(f"load at {where:#x}", lambda: launch(attacks["load"], where))
    attempt(f"store at {where:#x}", lambda: launch(attacks["store"], where))
size = 64
for name, act in {
    "copy from the device": lambda: device.read(victim, size),
    "copy to the device": lambda: device.write(victim, b"x" * size),
    "fill": lambda: device.fill(victim, 0, size),
    "copy on the device, from": lambda: device.copy(device.alloc(4096), victim, size),
    "copy on the device, to": lambda: device.copy(victim, device.alloc(4096), size),
    "a copy that begins in its own and ends behind": lambda: device.read(
        device.alloc(1), device.memory_stats().reserved_bytes + (1 << 30)),
    "free": lambda: device.free(victim),
    "use on another stream": lambda: device.record(victim, None),
}.items():
    attempt(name, act)
print(json.dumps(found))
"""


@contextmanager
def victim(node: Node) -> Iterator[tuple[int, list[bool]]]:
    """Another process's memory, and, at the end of the scope, whether each part is as it was."""
    variables = {**os.environ, "EMU_DEVICE_DIR": str(node.folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    )
    whole: list[bool] = []
    try:
        assert process.stdout
        yield int(process.stdout.readline()), whole
        said, _ = process.communicate("", timeout=60)
        whole += json.loads(said)
    finally:
        process.kill()
        process.wait()


@pytest.mark.check("gate0.isolation.memory", obligations=["G0", "R1"], kind="focused test")
def test_memory(node: Node, detail: Callable[..., None]) -> None:
    """A program or a copy reaches memory of another context."""
    with victim(node) as (address, whole):
        done = run_python(ATTACKER, json.dumps([ATTACKS, address]), env=node.env)
    assert done.status == 0, done.told
    found: dict[str, str] = json.loads(done.stdout)
    worked = [path for path, how in found.items() if how == "worked"]
    detail(paths=found, victim_intact=whole)
    print(f"{len(found)} paths to another context's memory: none led there")
    assert len(found) == 2 * len(ATTACKS) + 12 + 8
    assert worked == []
    assert whole == [True, True]


# Requests that name a context, and what of its objects they name.
CONTROL = {
    "destroy": (raw.CONTEXT_DESTROY, 0),
    "allocate": (raw.MEMORY_ALLOC, 0),
    "free": (raw.MEMORY_FREE, 0),
    "protect": (raw.MEMORY_PROTECT, 0),
    "memory information": (raw.MEMORY_INFO, 0),
    "unregister pinned memory": (raw.HOST_UNREGISTER, 1),
    "unload a program": (raw.PROGRAM_UNLOAD, 1),
    "make a queue": (raw.QUEUE_CREATE, 0),
    "destroy a queue": (raw.QUEUE_DESTROY, 1),
    "read its fault": (raw.FAULT, 0),
    "record its activity": (raw.ACTIVITY_ENABLE, 0),
    "read its activity": (raw.ACTIVITY_READ, 0),
    "reset a queue": (raw.QUEUE_RESET, 1),
    "read a queue's fault": (raw.QUEUE_FAULT, 1),
    "cancel commands": (raw.QUEUE_CANCEL, 1),
    "make a fence": (raw.FENCE_CREATE, 0),
    "share a fence": (raw.FENCE_EXPORT, 1),
    "take a fence": (raw.FENCE_IMPORT, 1),
    "destroy a fence": (raw.FENCE_DESTROY, 1),
    "signal a fence": (raw.FENCE_SIGNAL, 1),
    "share its memory": (raw.PEER_EXPORT, 0),
    "take another's memory": (raw.PEER_IMPORT, 1),
}
NUMBERS = 64
MINE = -1  # an address of the client's own


def commands_at(address: int) -> dict[str, tuple[int, int, int, int, int]]:
    """Kind, target, source, offset, length."""
    commands: dict[str, tuple[int, int, int, int, int]] = {
        "copy from another's memory": (raw.COPY_ON_DEVICE, MINE, address, 0, 64),
        "copy to another's memory": (raw.COPY_ON_DEVICE, address, MINE, 0, 64),
        "fill another's memory": (raw.FILL, address, 0, 0, 64),
    }
    for number in range(1, 8):
        commands[f"pinned buffer {number}"] = (raw.COPY_FROM_DEVICE, number, MINE, 0, 64)
        commands[f"timestamp into buffer {number}"] = (raw.TIMESTAMP, number, 0, 0, 0)
        commands[f"program {number}"] = (raw.LAUNCH, number, 0, 0, 0)
        commands[f"fence {number}"] = (raw.SIGNAL_FENCE, number, 1, 0, 0)
        commands[f"peer {number}"] = (raw.COPY_PEER, MINE, address, number, 64)
    return commands


@pytest.mark.check("gate0.isolation.handles", obligations=["G0", "R2"], kind="focused test")
def test_handles(node: Node, detail: Callable[..., None]) -> None:
    """A client that guesses the numbers of another's contexts, queues or buffers may use them."""
    unexpected: dict[str, Any] = {}
    with victim(node) as (address, whole), raw.Client(node.folder, 1000) as client:
        own = client.value(raw.CONTEXT_CREATE)
        for context in {*range(1, NUMBERS), own - 1, own + 1} - {own}:
            # A context that is found and has no such object is as stale: the words tell them apart.
            refused = f"no context {context} of this client"
            for name, (kind, object) in CONTROL.items():
                needs = 65536 if kind == raw.MEMORY_ALLOC else 0
                answer = client.ask(kind, context, object and NUMBERS, 0, needs)
                if answer.status != raw.STALE_HANDLE or refused not in answer.cause:
                    unexpected[f"{name}: context {context}"] = [answer.status, answer.cause]
        # Commands that name what is another's: each costs the context that asked.
        for name, command in commands_at(address).items():
            context = client.value(raw.CONTEXT_CREATE)
            mine = client.value(raw.MEMORY_ALLOC, context, 0, 0, 65536)
            queue = raw.Queue(client, context)
            kind, target, source, offset, size = (mine if f == MINE else f for f in command)
            queue.submit(kind, target, source, offset, size)
            if queue.ends():
                unexpected[name] = "worked"
            client.value(raw.CONTEXT_DESTROY, context)
    commands = list(commands_at(address))
    detail(requests=list(CONTROL), contexts=NUMBERS, commands=commands, unexpected=unexpected)
    print(f"{len(CONTROL)} requests for each of {NUMBERS} contexts, {len(commands)} commands")
    assert unexpected == {}
    assert whole == [True, True]
