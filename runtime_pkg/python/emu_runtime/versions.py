"""Which releases are installed and which interfaces they speak, read before anything is loaded.

The numbers stand once, in the two C headers; the build writes this package's into `interface.json`,
what the driver serves into its `compatibility.json`, and what the plugin needs into its stamp.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from typing import NamedTuple

from emu_runtime.errors import NoDriverError, Scope, VersionError

PACKAGE = Path(__file__).resolve().parent
DRIVER_INSTALL = "Run: pip install 'emu-driver-shim~=0.1.0'"
RUNTIME_UPDATE = "Run: pip install --upgrade emu-runtime"
PARTS = ("emu-driver-shim", "emu-runtime", "torch-emu")


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


def releases() -> dict[str, str]:
    """The release of each part that is installed, as its metadata says."""
    found = {}
    for name in PARTS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def leftovers() -> list[Path]:
    """Folders of metadata that a killed installer left. Python takes one for the part itself, which
    then has no version, no RECORD and no entry point."""
    names = [name.replace("-", "_") for name in PARTS]
    found: set[Path] = set()
    for at in map(Path, sys.path):
        with contextlib.suppress(OSError):  # a folder that Python cannot read either
            for name in names:
                found.update(at.glob(f"{name}-*.dist-info"))
    return sorted(path for path in found if not (path / "METADATA").exists())


def reinstall() -> str:
    """The command that mends what is damaged or of several releases: all parts that are installed,
    of the plugin's release, which is what users ask for by name, or else of the runtime's."""
    found = releases()
    wanted = found.get("torch-emu") or found.get("emu-runtime")
    names = [name for name in PARTS if name in found or name != "torch-emu"]
    how = "--force-reinstall" if all(map(_is_recorded, PARTS)) else "--ignore-installed"
    pinned = (f"{name}=={wanted}" if wanted else name for name in names)
    return f"Run: pip install {how} --no-deps {' '.join(pinned)}"


def _is_recorded(name: str) -> bool:
    """pip takes out by its RECORD what it replaces, and refuses where a kill left none."""
    try:
        return importlib.metadata.distribution(name).read_text("RECORD") is not None
    except importlib.metadata.PackageNotFoundError:
        return True  # there is nothing to replace


@functools.cache
def built() -> Built:
    """Raises VersionError when the package's own file is missing or damaged."""
    path = PACKAGE / "interface.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Built(str(data["version"]), Number(*data["runtime"]), Number(*data["driver"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VersionError(f"{path} cannot be read: {error}", mend=reinstall()) from error


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
        raise VersionError(f"{path} cannot be read: {error}", mend=reinstall()) from error


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


def require_runtime(needed: Number | None) -> None:
    """Raises VersionError, naming both sides, when this runtime does not serve what is needed."""
    serves = built().runtime
    if needed is not None and (needed.major != serves.major or needed > serves):
        raise VersionError(
            f"the installed torch-emu needs runtime interface {needed}, this emu-runtime serves "
            f"{serves}",
            mend=RUNTIME_UPDATE,
            scope=Scope.HOST,
        )


def plugin_needs() -> Number | None:
    """The runtime interface that the installed torch-emu was built with, found without running its
    code; None where there is none, or its stamps do not say."""
    spec = importlib.util.find_spec("torch_emu")
    if spec is None or spec.origin is None:
        return None
    for path in sorted(Path(spec.origin).parent.glob("lib/torch*/stamp.json")):
        try:
            return Number(*map(int, json.loads(path.read_text(encoding="utf-8"))["runtime"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
