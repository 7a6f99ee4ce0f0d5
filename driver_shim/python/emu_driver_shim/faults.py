"""emu-fault: faults that a device is told to have, so that what comes of them can be seen.

    emu-fault inject KIND [--process N] [--queue N] [--command KIND] [--skip N] [--times N]
                          [--factor N] [--address N]
    emu-fault list | clear [NUMBER]          [--device N] [--json]

A fault strikes the commands that match, after `--skip` of them, `--times` times (0: until it is
cleared). docs/faults.md says what each kind does, and how to recover. Exit status: 0 when done, 1
when refused or without a device (the reason is on standard error), 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from emu_driver_shim import tool
from emu_driver_shim.driver import ANY_QUEUE, CFault, Device, DriverError, Number


class _Word(Number):
    """Members by the words of the command line."""

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


class FaultKind(_Word):
    BIT_CORRECTED = 1
    BIT_UNCORRECTED = 2
    HANG = 3
    LOST_DOORBELL = 4
    PAGE_FAULT = 5
    THERMAL_TRIP = 6
    FIRMWARE_CRASH = 7
    SLOW = 8
    LINK_DOWN = 9


class CommandKind(_Word):
    """Those of emu_activity_kind that are commands."""

    ANY = 0
    LAUNCH = 1
    COPY_TO_DEVICE = 2
    COPY_FROM_DEVICE = 3
    COPY_ON_DEVICE = 4
    FILL = 5
    WAIT = 6
    TIMESTAMP = 9
    SIGNAL = 10
    COPY_PEER = 11


def _member(kind: type[_Word], word: str) -> _Word:
    return kind[word.upper().replace("-", "_")]


def _integer(most: int) -> Any:
    def parse(text: str) -> int:
        number = int(text, 0)
        if not 0 <= number <= most:
            raise ValueError
        return number

    parse.__name__ = f"number from 0 to {most}"
    return parse


def fault_data(raw: CFault) -> dict[str, Any]:
    return {
        "number": raw.number,
        "kind": FaultKind(raw.kind).word,
        "process": raw.process,
        "queue": None if raw.queue == ANY_QUEUE else raw.queue,
        "command": CommandKind(raw.command).word,
        "skip": raw.skip,
        "times": raw.times,
        "factor": raw.factor,
        "address": raw.address,
        "struck": raw.struck,
    }


def describe(data: dict[str, Any]) -> str:
    """A line for a person."""
    if data["kind"].startswith("bit-"):
        where = f"at 0x{data['address']:x} of process {data['process']}"
    else:
        command = "command" if data["command"] == "any" else data["command"]
        where = f"each {command} after {data['skip']}" if data["skip"] else f"each {command}"
        where += f" of process {data['process']}" if data["process"] else ""
        where += f" of queue {data['queue']}" if data["queue"] is not None else ""
        where += f", {data['factor']} times as long" if data["factor"] else ""
    most = data["times"] or "any number"
    return f"{data['number']:>4} {data['kind']}: {where}; has struck {data['struck']} of {most}"


def _inject(device: Device, given: argparse.Namespace) -> dict[str, Any]:
    if device.info().is_private:
        raise DriverError(
            "NOT_SUPPORTED",
            "the device is private to emu-fault, and gone with it: no command would be struck",
            "set EMU_DEVICE_DIR to the folder of a device node",
        )
    fault = CFault(
        kind=_member(FaultKind, given.kind),
        process=given.process,
        queue=ANY_QUEUE if given.queue is None else given.queue,
        command=_member(CommandKind, given.of),
        skip=given.skip,
        times=given.times,
        factor=given.factor,
        address=given.address,
    )
    fault.number = device.inject(fault)
    listed = (one for one in device.faults() if one.number == fault.number)
    return fault_data(next(listed, fault))  # not listed: cleared meanwhile, by another


def _run(device: Device, given: argparse.Namespace) -> None:
    if given.action == "clear":
        device.clear_faults(given.number)
        faults = [fault_data(fault) for fault in device.faults()]
        said = "cleared"
    elif given.action == "inject":
        faults = [_inject(device, given)]
        said = describe(faults[0])
    else:
        faults = [fault_data(fault) for fault in device.faults()]
        said = "\n".join(map(describe, faults)) or "no faults are injected"
    print(json.dumps({"faults": faults}) if given.json else said)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emu-fault", description="Injected faults of a device.")
    actions = parser.add_subparsers(dest="action", required=True)
    inject = actions.add_parser("inject", help="let a fault strike the commands that match")
    inject.add_argument("kind", choices=[kind.word for kind in FaultKind])
    inject.add_argument("--process", type=_integer((1 << 31) - 1), default=0, metavar="N")
    inject.add_argument("--queue", type=_integer(ANY_QUEUE - 1), metavar="N")
    inject.add_argument(
        "--command", dest="of", choices=[kind.word for kind in CommandKind], default="any"
    )
    inject.add_argument("--skip", type=_integer((1 << 64) - 1), default=0, metavar="N")
    inject.add_argument("--times", type=_integer((1 << 64) - 1), default=1, metavar="N")
    inject.add_argument("--factor", type=_integer((1 << 32) - 1), default=0, metavar="N")
    inject.add_argument("--address", type=_integer((1 << 64) - 1), default=0, metavar="N")
    clear = actions.add_parser("clear", help="take faults back: one by its number, or all")
    clear.add_argument("number", type=_integer((1 << 64) - 1), nargs="?", default=0)
    shown = actions.add_parser("list", help="what was injected, and how often it has struck")
    for action in (inject, clear, shown):
        tool.add_arguments(action)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    return tool.run("emu-fault", _parse(arguments), _run)
