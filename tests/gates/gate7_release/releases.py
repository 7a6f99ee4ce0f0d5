"""The releases that the pipeline handed over: before, here and after, and what works with what.

`--releases FOLDER` has a folder of wheels for each, one of companions, and compat.toml.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PARTS = {"driver": "emu_driver_shim", "runtime": "emu_runtime", "plugin": "torch_emu"}
NAMES = ("before", "here", "after")


class Release(NamedTuple):
    name: str
    version: str
    driver: Path
    runtime: Path
    plugin: Path

    @property
    def wheels(self) -> tuple[Path, Path, Path]:
        return self.driver, self.runtime, self.plugin

    @property
    def folder(self) -> Path:
        return self.driver.parent


class Releases(NamedTuple):
    before: Release
    here: Release
    after: Release
    compat: dict[str, Any]
    companions: tuple[Path, ...]
    """Wheels of others that are to be installed beside ours."""


def read(folder: Path) -> Releases:
    compat = tomllib.loads((folder / "compat.toml").read_text(encoding="utf-8"))
    before, here, after = (_release(folder / name) for name in NAMES)
    companions = tuple(sorted((folder / "companions").glob("*.whl")))
    return Releases(before, here, after, compat, companions)


def _release(folder: Path) -> Release:
    found = {}
    for part, start in PARTS.items():
        wheels = sorted(folder.glob(f"{start}-*.whl"))
        assert len(wheels) == 1, f"{folder}: expected one wheel {start}-*.whl, got {wheels}"
        found[part] = wheels[0]
    versions = {wheel.name.split("-")[1] for wheel in found.values()}
    assert len(versions) == 1, f"{folder}: expected one version, got {versions}"
    return Release(folder.name, versions.pop(), **found)
