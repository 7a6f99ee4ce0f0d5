"""Console entry points: each becomes the program of its name in this package's `bin`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from emu_driver_shim import emud_path


def _become(name: str) -> NoReturn:
    path = emud_path().parent / name
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {path} cannot be run: {error.strerror}; reinstall emu-driver-shim")


def emud() -> NoReturn:
    _become("emud")


def emu_as() -> NoReturn:
    _become("emu-as")


def emu_objdump() -> NoReturn:
    _become("emu-objdump")
