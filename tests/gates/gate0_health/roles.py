"""What the processes of a check about sharing do, each a program: roles.py ROLE ARGUMENTS.

A role prints a line of JSON at each step, and goes on when it is sent a line.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from emu_driver_shim.driver import DriverError
from gate0_health.native import COPY, READ, WRITE, Context, Token

COUNT = """
.program count
.lanes 64
.args 8
arg.i64 s0, 0
loop s1, s0
end
exit
"""
TOUCH = {
    name: f".program {name}\n.lanes 64\n.args 8\narg.i64 s0, 0\ns{name}.i32 s0, s0\nexit\n"
    for name in ("load", "store")
}
FOREVER = struct.pack("<q", 2**63 - 1)
COPY_PEER = 11  # kind of a record
MOMENT_NS = 50_000_000
PAGE = 65536


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def proceed() -> None:
    if not sys.stdin.readline():
        sys.exit("the check is gone")


def hold() -> None:
    """The compute engine is kept by a launch that goes on until the check has seen enough."""
    context = Context()
    queue, count = context.queue(), context.program(COUNT)
    queue.fill(context.alloc(PAGE), 0, 1)
    queue.synchronize()
    queue.launch(count, FOREVER)
    time.sleep(0.05)
    say(held=not queue.synchronize(nanoseconds=0))
    proceed()
    context.destroy()


def want(contexts: str, launches: str, steps: str) -> None:
    """The same number of launches in each of the contexts, all submitted while another holds."""
    argument = struct.pack("<q", int(steps))
    say()
    proceed()
    queues = []
    for _ in range(int(contexts)):
        context = Context()
        queues.append(context.queue())
        count = context.program(COUNT)
        for _ in range(int(launches)):
            queues[-1].launch(count, argument)
    say()
    for queue in queues:
        queue.synchronize()
    records = [record for queue in queues for record in queue.context.records()]
    say(ran=sorted((record.start_ticks, record.end_ticks) for record in records))


def priorities(launches: str, *given: str) -> None:
    """Queues of these priorities, in two contexts by turns: whose launches ran in what order."""
    contexts = [Context(), Context()]
    say()
    proceed()
    queues = [contexts[n % 2].queue(priority=int(one)) for n, one in enumerate(given)]
    programs = [context.program(COUNT) for context in contexts]
    for _ in range(int(launches)):
        for n, queue in enumerate(queues):
            queue.launch(programs[n % 2], struct.pack("<q", 10))
    say()
    for queue in queues:
        queue.synchronize()
    numbers = [queue.number for queue in queues]
    records = [record for context in contexts for record in context.records()]
    records.sort(key=lambda record: record.start_ticks)
    say(order=[numbers.index(record.queue) for record in records])


def access() -> None:
    """Each way to touch the second of two pages, under each access to it: which fault."""
    told: dict[str, list[str]] = {}
    for allowed in (0, READ, WRITE, READ | WRITE):
        for name in ("load", "store", "copy_from", "copy_to", "fill"):
            context = Context()
            address = context.alloc(2 * PAGE)
            queue, second = context.queue(), address + PAGE
            queue.fill(address, 7, 2 * PAGE)
            queue.synchronize()
            context.protect(second, PAGE, allowed)
            if name == "fill":
                queue.fill(address, 1, PAGE + 1)
            elif name.startswith("copy"):
                ends = (address, second) if name == "copy_from" else (second, address)
                queue.submit("queue_copy_on_device", *ends, 16)
            else:
                queue.launch(context.program(TOUCH[name]), struct.pack("<q", second))
            try:
                queue.synchronize()
                outcome = "done"
            except DriverError as error:
                named = f"0x{second:x}" in error.cause
                outcome = f"{error.status}{'' if named else ' of another address'}"
            told.setdefault(name, []).append(outcome)
            context.destroy()
    say(**told)


def cancel() -> None:
    """A wait that nobody ends and a launch without an end, each with work behind it."""
    context = Context()
    queue, never, count = context.queue(), context.queue(COPY), context.program(COUNT)
    address = context.alloc(PAGE)
    queue.fill(address, 1, 1)
    queue.synchronize()
    blocked = queue.last + 1
    queue.wait_queue(never, 1)
    queue.fill(address, 2, 1)
    waited = not queue.synchronize(nanoseconds=MOMENT_NS)
    first = queue.cancel(blocked)
    after_wait = queue.synchronize()
    queue.fill(address + 1, 3, 1)
    running = queue.launch(count, FOREVER)
    queue.fill(address, 4, 1)
    spared = not queue.synchronize(running, MOMENT_NS)
    second = queue.cancel(running, running=True)
    after_launch = queue.synchronize()
    queue.fill(address + 2, 5, 1)
    queue.synchronize()
    say(
        firsts=[first - blocked, second - running],
        blocked=[waited, spared],
        went_on=[after_wait, after_launch],
        bytes=list(context.read(address, 3)),
        cancelled=[r.command for r in context.records() if r.status and r.queue == queue.number],
        expected=[blocked, blocked + 1, running, running + 1],
    )


def signal() -> None:
    """Makes a fence; signals 1 behind a launch; then waits for its end."""
    context = Context()
    queue, fence, count = context.queue(), context.fence(), context.program(COUNT)
    say(token=fence.token().text())
    proceed()
    queue.launch(count, struct.pack("<q", 200_000))
    queue.signal(fence, 1)
    queue.synchronize()
    say(ticks=context.records()[-1].end_ticks)
    proceed()


def wait(token: str) -> None:
    """A fill behind 1 of another process's fence; then a wait, by host and queue, for 2."""
    context = Context()
    queue, fence = context.queue(COPY), context.fence(Token.parse(token))
    queue.wait(fence, 1)
    queue.fill(context.alloc(PAGE), 1, 1)
    say(early=queue.synchronize(nanoseconds=MOMENT_NS))
    say(done=queue.synchronize(), start=context.records()[-1].start_ticks)
    queue.wait(fence, 2)
    say(early=queue.synchronize(nanoseconds=MOMENT_NS))
    told = []
    waits: list[Callable[[], bool]] = [lambda: fence.synchronize(2), lambda: queue.synchronize()]
    for waiting in waits:
        start = time.monotonic()
        try:
            waiting()
            told.append(("OK", "", 0.0))
        except DriverError as error:
            told.append((error.status, error.cause, time.monotonic() - start))
    say(told=told)


def devices() -> None:
    """A fence orders the queues of two devices, on the device clock too."""
    one, other = Context(0), Context(1)
    fence, size = one.fence(), 1 << 20
    there = other.fence(fence.token())
    first, second = one.queue(), other.queue()
    address = other.alloc(PAGE)
    second.wait(there, 1)
    second.fill(address, 1, 1)
    early = second.synchronize(nanoseconds=MOMENT_NS)
    first.fill(one.alloc(size), 1, size)
    first.signal(fence, 1)
    done = second.synchronize()
    say(
        early=early,
        done=done,
        signalled=one.records()[-1].end_ticks,
        start=other.records()[-1].start_ticks,
    )


def copy(size: str) -> None:
    """Bytes from device 0 to 1 and back, and what it cost on both and on the link."""
    here, there, length = Context(0), Context(1), int(size)
    source, target = here.alloc(length), there.alloc(length)
    queue = here.queue(COPY)
    queue.fill(source, 7, length)
    queue.fill(source + length // 2, 9, length - length // 2)
    queue.copy_peer(there, target, here, source, length)
    queue.fill(source, 0, length)
    queue.copy_peer(here, source, there, target, length)
    queue.synchronize()
    right = bytes([7]) * (length // 2) + bytes([9]) * (length - length // 2)
    link = here.device.links()[0]
    say(
        right=[there.read(target, length) == right, here.read(source, length) == right],
        ticks=[r.end_ticks - r.start_ticks for r in here.records() if r.kind == COPY_PEER],
        bytes=list(link.bytes),
        busy=list(link.busy_ticks),
        cost=link.latency_ticks + -(-length // link.bytes_per_tick),
    )


def down() -> None:
    """A link that is down, what a copy over it is told, and a link that is not."""
    contexts = [Context(index) for index in range(3)]
    addresses = [context.alloc(PAGE) for context in contexts]

    def over(one: int, other: int) -> tuple[str, str]:
        queue = contexts[one].queue(COPY)
        try:
            queue.copy_peer(contexts[other], addresses[other], contexts[one], addresses[one], 16)
            queue.synchronize()
        except DriverError as error:
            return error.status, error.cause
        return "OK", ""

    device = contexts[0].device
    before = over(0, 1)
    device.set_link_up(0, False)
    broken, other = over(0, 1), over(0, 2)
    state = [bool(link.is_up) for link in device.links()]
    device.set_link_up(0, True)
    say(
        told=[before, broken, other, over(0, 1)],
        up=state,
        errors=[link.errors for link in device.links()],
    )


ROLES = (hold, want, priorities, access, cancel, signal, wait, devices, copy, down)


def main() -> None:
    role, *arguments = sys.argv[1:]
    {one.__name__: one for one in ROLES}[role](*arguments)
