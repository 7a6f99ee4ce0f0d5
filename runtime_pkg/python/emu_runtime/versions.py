"""Which interfaces the installed packages speak, read from their files before anything is loaded.

The numbers stand once, in the two C headers; the build writes this package's into `interface.json`,
and what the driver serves into its `compatibility.json`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

from emu_runtime.errors import NoDriverError, Scope, VersionError

PACKAGE = Path(__file__).resolve().parent
DRIVER_INSTALL = "Run: pip install 'emu-driver-shim~=0.1.0'"
RUNTIME_UPDATE = "Run: pip install --upgrade emu-runtime"
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


class Window(NamedTuple):
    """Which interfaces an installed driver serves, and what each one added to the one before."""

    minimum: Number
    current: Number
    adds: dict[Number, tuple[str, ...]]

    def serves(self, needed: Number) -> bool:
        return self.minimum <= needed <= self.current and needed.major == self.current.major

    def beyond(self, needed: Number) -> list[str]:
        """What this driver has and who is built for `needed` cannot ask for."""
        newer = sorted(number for number in self.adds if needed < number <= self.current)
        return [added for number in newer for added in self.adds[number]]


def driver_window(package: Path) -> Window:
    """From the compatibility file that the driver's package carries.

    Raises VersionError when it is missing, damaged, or of a format that is not known here.
    """
    path = package / "compatibility.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != 1:
            raise ValueError(f"expected format 1, got {data['format']!r}")
        return Window(
            minimum=Number(*map(int, data["minimum"])),
            current=Number(*map(int, data["current"])),
            adds={
                Number(*map(int, number.split("."))): tuple(map(str, added))
                for number, added in data["adds"].items()
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VersionError(f"{path} cannot be read: {error}", mend=REINSTALL) from error


def require_driver(needed: Number, window: Window) -> None:
    """Raises VersionError, naming both sides, when the window does not hold what is needed."""
    if window.serves(needed):
        return
    older = needed < window.minimum
    raise VersionError(
        f"this emu-runtime needs driver interface {needed}, the installed emu-driver-shim serves "
        f"{window.minimum} to {window.current}",
        mend=f"{RUNTIME_UPDATE}, or an older emu-driver-shim" if older else DRIVER_INSTALL,
        scope=Scope.HOST,
    )
