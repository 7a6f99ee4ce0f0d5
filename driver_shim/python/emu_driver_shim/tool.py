"""What the programs that ask a device for one thing share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from emu_driver_shim.driver import Device, DriverError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, choices=range(64), default=0, metavar="N")
    parser.add_argument("--json", action="store_true")


def run(
    name: str, given: argparse.Namespace, work: Callable[[Device, argparse.Namespace], None]
) -> int:
    """The exit status: 0 when done, 1 when refused or without a device, with the reason told."""
    try:
        with Device(given.device) as device:
            work(device, given)
    except DriverError as error:
        if given.json:
            data = {"status": error.status, "cause": error.cause, "mend": error.mend}
            print(json.dumps({"error": data}))
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
