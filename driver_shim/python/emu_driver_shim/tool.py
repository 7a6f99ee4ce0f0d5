"""What the programs that ask a device for one thing share."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable

from emu_driver_shim.driver import Device, DriverError

SIGNALS = (signal.SIGINT, signal.SIGPIPE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, choices=range(64), default=0, metavar="N")
    parser.add_argument("--json", action="store_true")


def run(
    name: str, given: argparse.Namespace, work: Callable[[Device, argparse.Namespace], None]
) -> int:
    """The exit status: 0 when done, 1 when refused or without a device, with the reason told.

    Ctrl-C and a reader that goes end the process as they do a program in C, also while the library
    waits for an emud that is stopped.
    """
    before = [signal.signal(number, signal.SIG_DFL) for number in SIGNALS]
    try:
        status = _run(name, given, work)
        sys.stdout.flush()
        return status
    except OSError as error:
        print(f"{name}: standard output: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at the end
        return 1
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _run(
    name: str, given: argparse.Namespace, work: Callable[[Device, argparse.Namespace], None]
) -> int:
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
