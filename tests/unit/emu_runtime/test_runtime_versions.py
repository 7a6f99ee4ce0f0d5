"""Versions are judged from files: no library is there in these tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from emu_runtime import interface, library, versions
from emu_runtime.errors import NoDriverError, VersionError
from emu_runtime.versions import Number

HEADER = "#define EMU_DRIVER_INTERFACE_MAJOR {}\n#define EMU_DRIVER_INTERFACE_MINOR {}\n"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An emu_driver_shim that is only its header, and our own interface.json."""
    driver = tmp_path / "emu_driver_shim"
    (driver / "include" / "emu").mkdir(parents=True)
    (driver / "__init__.py").write_text("raise RuntimeError('its code must not run')\n")
    (driver / "include" / "emu" / "driver.h").write_text(HEADER.format(1, 0))
    own = f"[{interface.MAJOR}, {interface.MINOR}]"
    text = f'{{"version": "0.1.0", "runtime": {own}, "driver": [1, 0]}}'
    (tmp_path / "interface.json").write_text(text)
    monkeypatch.setattr(versions, "PACKAGE", tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    versions.built.cache_clear()
    yield tmp_path
    versions.built.cache_clear()


@pytest.mark.parametrize(
    ("needed", "found", "served"),
    [
        (Number(1, 0), Number(1, 0), True),
        (Number(1, 0), Number(1, 7), True),
        (Number(1, 2), Number(1, 1), False),
        (Number(1, 0), Number(2, 0), False),
        (Number(2, 0), Number(1, 9), False),
    ],
)
def test_a_newer_minor_serves_and_nothing_else(needed: Number, found: Number, served: bool) -> None:
    if served:
        versions.require_driver(needed, found)
        return
    with pytest.raises(VersionError) as caught:
        versions.require_driver(needed, found)
    assert str(needed) in str(caught.value)
    assert str(found) in str(caught.value)
    assert "pip install" in caught.value.mend


def test_the_driver_is_refused_before_any_library_is_loaded(packages: Path) -> None:
    header = packages / "emu_driver_shim" / "include" / "emu" / "driver.h"
    header.write_text(HEADER.format(2, 0))
    with pytest.raises(VersionError, match=r"needs driver interface 1\.0 .* has 2\.0"):
        library.load()


def test_a_missing_driver_is_named(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(NoDriverError, match="emu-driver-shim is not installed"):
        library.load()


def test_a_missing_library_is_named(packages: Path) -> None:
    with pytest.raises(NoDriverError, match=r"libemurt\.so"):
        library.load()


@pytest.mark.parametrize("text", ["", "{}", '{"version": "1", "runtime": 3, "driver": [1, 0]}'])
def test_a_damaged_interface_file_is_named(packages: Path, text: str) -> None:
    (packages / "interface.json").write_text(text)
    with pytest.raises(VersionError, match=r"interface\.json cannot be read"):
        versions.built()


def test_a_header_without_a_number_is_named(packages: Path) -> None:
    driver = packages / "emu_driver_shim"
    (driver / "include" / "emu" / "driver.h").write_text("/* nothing */\n")
    with pytest.raises(VersionError, match="states no interface number"):
        versions.driver_interface(driver)
