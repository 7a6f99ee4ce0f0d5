"""Where this package's files are: the device process, its driver library, the interface number.

Nothing here loads a library, starts a process or opens a device.
"""

from __future__ import annotations

import re
from pathlib import Path

__version__ = "0.1.0"
_PACKAGE = Path(__file__).resolve().parent


def library_path() -> Path:
    """libemudrv.so, the client side of the driver interface."""
    return _PACKAGE / "lib" / "libemudrv.so"


def emud_path() -> Path:
    """emud, the process that is the device."""
    return _PACKAGE / "bin" / "emud"


def header_path() -> Path:
    """emu/driver.h, the driver interface."""
    return _PACKAGE / "include" / "emu" / "driver.h"


def interface_version() -> tuple[int, int]:
    """Major and minor of the driver interface, as its header states them.

    Raises OSError when the header is not there, ValueError when it states no number.
    """
    text = header_path().read_text(encoding="utf-8")
    found = dict(re.findall(r"#define EMU_DRIVER_INTERFACE_(MAJOR|MINOR) (\d+)", text))
    if found.keys() != {"MAJOR", "MINOR"}:
        raise ValueError(f"{header_path()} states no interface number; reinstall emu-driver-shim")
    return int(found["MAJOR"]), int(found["MINOR"])
