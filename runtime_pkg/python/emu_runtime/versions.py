"""Which interfaces the installed packages speak, read from their files before anything is loaded.

The numbers stand once, in the two C headers; the build writes this package's into `interface.json`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from pathlib import Path
from typing import NamedTuple

from emu_runtime.errors import NoDriverError, Scope, VersionError

PACKAGE = Path(__file__).resolve().parent
DRIVER_INSTALL = "Run: pip install 'emu-driver-shim~=0.1.0'"
REINSTALL = "Run: pip install --force-reinstall --no-deps emu-runtime emu-driver-shim"


class Number(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Built(NamedTuple):
    """What this package was built with."""

    version: str
    runtime: Number
    driver: Number


@functools.cache
def built() -> Built:
    """Raises VersionError when the package's own file is missing or damaged."""
    path = PACKAGE / "interface.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Built(str(data["version"]), Number(*data["runtime"]), Number(*data["driver"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VersionError(f"{path} cannot be read: {error}", mend=REINSTALL) from error


def interface_version() -> int:
    """The runtime interface as one number (major * 1000 + minor), as `emurt_get_api` takes it."""
    number = built().runtime
    return number.major * 1000 + number.minor


def driver_package() -> Path:
    """The folder of the installed emu_driver_shim, found without running its code."""
    spec = importlib.util.find_spec("emu_driver_shim")
    if spec is None or spec.origin is None:
        raise NoDriverError("the package emu-driver-shim is not installed", mend=DRIVER_INSTALL)
    return Path(spec.origin).resolve().parent


def driver_interface(package: Path) -> Number:
    """The number in the header that the driver's package carries."""
    header = package / "include" / "emu" / "driver.h"
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        raise VersionError(f"{header} cannot be read: {error}", mend=REINSTALL) from error
    found = {
        part: int(value)
        for part, value in re.findall(r"#define EMU_DRIVER_INTERFACE_(MAJOR|MINOR) (\d+)", text)
    }
    if found.keys() != {"MAJOR", "MINOR"}:
        raise VersionError(f"{header} states no interface number", mend=REINSTALL)
    return Number(found["MAJOR"], found["MINOR"])


def require_driver(needed: Number, found: Number) -> None:
    """The same major, and a minor that is not older: raises VersionError naming both."""
    if found.major == needed.major and found.minor >= needed.minor:
        return
    raise VersionError(
        f"this emu-runtime needs driver interface {needed.major}.{needed.minor} or a newer "
        f"{needed.major}.x, the installed emu-driver-shim has {found}",
        mend=DRIVER_INSTALL,
        scope=Scope.HOST,
    )
