"""emu-fw: the firmware of a device, and its event log.

    emu-fw info | install FILE | activate | rollback | reset | events  [--device N] [--json]

Installed firmware runs only when it was activated and the device has started again, or was reset.
Exit status: 0 when done, 1 when refused or without a device (the reason is on standard error), 2
for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emu_driver_shim import tool
from emu_driver_shim.driver import (
    ANY_QUEUE,
    NO_SLOT,
    CEvent,
    CFirmwareInfo,
    Device,
    DriverError,
    Number,
)


class SlotState(Number):
    EMPTY = 0
    INVALID = 1
    VALID = 2
    WRITING = 3
    REFUSED = 4


class EventKind(Number):
    BOOT = 1
    FIRMWARE_WRITTEN = 2
    FIRMWARE_ACTIVATED = 3
    FIRMWARE_ROLLED_BACK = 4
    FIRMWARE_REFUSED = 5
    RESET = 6
    FAULT = 7
    CONTEXT_LOST = 8
    CLIENT_LOST = 9
    INJECTION = 10
    LINK = 11


LARGEST_FILE_BYTES = 16 * 2**20  # read at all; how long an image may be is the device's word
CHANGES = ("install", "activate", "rollback", "reset")


def _slot(number: int) -> int | None:
    return None if number == NO_SLOT else number


def _interface(number: int) -> str:
    return f"{number // 1000}.{number % 1000}"


def firmware_data(raw: CFirmwareInfo) -> dict[str, Any]:
    slots = [
        {
            "state": SlotState(slot.state).name.lower(),
            "version": slot.version.decode(errors="replace"),
            "rollback_index": slot.rollback_index,
            "minimum_interface": _interface(slot.minimum_interface),
            "digest": slot.digest.decode(errors="replace"),
            "bytes": slot.bytes,
            "cause": slot.cause.decode(errors="replace"),
        }
        for slot in raw.slots
    ]
    return {
        "version": raw.version.decode(errors="replace"),
        "active": _slot(raw.active),
        "pending": _slot(raw.pending),
        "previous": _slot(raw.previous),
        "minimum_rollback_index": raw.minimum_rollback_index,
        "is_persistent": bool(raw.is_persistent),
        "slots": slots,
    }


def event_data(raw: CEvent) -> dict[str, Any]:
    return {
        "sequence": raw.sequence,
        "kind": EventKind(raw.kind).name.lower(),
        "ticks": raw.ticks,
        "nanoseconds": raw.nanoseconds,
        "process": raw.process,
        "context": raw.context,
        "queue": None if raw.queue == ANY_QUEUE else raw.queue,
        "command": raw.command,
        "status": raw.status,
        "scope": raw.scope,
        "text": raw.text.decode(errors="replace"),
    }


def describe(data: dict[str, Any]) -> str:
    """The table for a person."""
    kept = "kept in a folder" if data["is_persistent"] else "in memory, gone with emud"
    where = "the built-in image" if data["active"] is None else f"slot {data['active']}"
    lines = [
        f"runs {data['version']} from {where}; slots are {kept}",
        f"lowest rollback index that may start: {data['minimum_rollback_index']}",
    ]
    for number, slot in enumerate(data["slots"]):
        roles = [role for role in ("active", "pending", "previous") if data[role] == number]
        words = [f"slot {number}:", slot["state"]]
        if slot["version"]:
            words += [slot["version"], f"rollback index {slot['rollback_index']},"]
            words += [f"interface {slot['minimum_interface']} or newer"]
        words += [f"({', '.join(roles)})"] if roles else []
        lines.append(" ".join(words) + (f": {slot['cause']}" if slot["cause"] else ""))
    return "\n".join(lines)


def _change(device: Device, given: argparse.Namespace) -> str:
    """Do it; one line that says what comes next."""
    before = device.firmware()
    if device.info().is_private and not before.is_persistent:
        raise DriverError(
            "NOT_SUPPORTED",
            "the device is private to emu-fw and keeps nothing: the change would be gone at once",
            "set EMU_STATE_DIR to a folder, or EMU_DEVICE_DIR to that of a device node",
        )
    match given.command:
        case "install":
            try:
                with given.file.open("rb") as file:
                    image = file.read(LARGEST_FILE_BYTES + 1)
            except OSError as error:
                raise DriverError("HOST", f"{given.file}: {error.strerror}", "") from error
            if not 0 < len(image) <= LARGEST_FILE_BYTES:
                got = "0 bytes" if not image else f"more than {LARGEST_FILE_BYTES} bytes"
                raise DriverError("BAD_FIRMWARE", f"{given.file}: expected an image, got {got}", "")
            device.write_firmware(image)
            return "installed; emu-fw activate lets the next start or reset run it"
        case "activate":
            device.activate()
            return "activated; it runs from the next start or reset on"
        case "rollback":
            device.rollback()
            return "rolled back; it holds from the next start or reset on"
        case _:
            device.reset()
            return "reset"


def _show(device: Device, given: argparse.Namespace) -> None:
    if given.command == "events":
        events, dropped = device.events()
        listed = [event_data(event) for event in events]
        if given.json:
            print(json.dumps({"dropped": dropped, "events": listed}))
            return
        if dropped:
            print(f"({dropped} older events are no longer there)")
        for event in listed:
            about = f" process {event['process']}" if event["process"] else ""
            what = f"{event['kind']}{about}: {event['text']}"
            print(f"{event['sequence']:>6} {event['ticks']:>14} {what}")
        return
    done = _change(device, given) if given.command in CHANGES else None
    data = firmware_data(device.firmware())
    if given.json:
        print(json.dumps(data))
    else:
        print(describe(data) if done is None else done)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emu-fw", description="Firmware of a device.")
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "info": "both slots, and which one runs",
        "install": "write an image to the slot that does not run",
        "activate": "let the next start or reset run the other slot",
        "rollback": "take back an activation, or go back to what ran before",
        "reset": "end every context of the device, and start firmware again",
        "events": "what happened on the device",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == "install":
            command.add_argument("file", type=Path)
        tool.add_arguments(command)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    return tool.run("emu-fw", _parse(arguments), _show)
