"""Versions are judged from files: no library is there in these tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from emu_runtime import interface, library, versions
from emu_runtime.errors import NoDriverError, VersionError
from emu_runtime.versions import Number, Window


def compatibility(major: int, minor: int, **more: object) -> str:
    adds = {f"{major}.{number}": [f"what {number} adds"] for number in range(1, minor + 1)}
    data = {"format": 1, "current": [major, minor], "minimum": [major, 0], "adds": adds, **more}
    return json.dumps(data)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An emu_driver_shim that is only its compatibility file, and our own interface.json."""
    driver = tmp_path / "emu_driver_shim"
    driver.mkdir()
    (driver / "__init__.py").write_text("raise RuntimeError('its code must not run')\n")
    (driver / "compatibility.json").write_text(compatibility(1, 0))
    own = f"[{interface.MAJOR}, {interface.MINOR}]"
    text = f'{{"version": "0.1.0", "runtime": {own}, "driver": [1, 0]}}'
    (tmp_path / "interface.json").write_text(text)
    monkeypatch.setattr(versions, "PACKAGE", tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    versions.built.cache_clear()
    yield tmp_path
    versions.built.cache_clear()


@pytest.mark.parametrize(
    ("needed", "minimum", "current", "served"),
    [
        (Number(1, 0), Number(1, 0), Number(1, 0), True),
        (Number(1, 0), Number(1, 0), Number(1, 7), True),
        (Number(1, 1), Number(1, 0), Number(1, 2), True),
        (Number(1, 2), Number(1, 0), Number(1, 1), False),
        (Number(1, 0), Number(1, 1), Number(1, 2), False),
        (Number(1, 0), Number(2, 0), Number(2, 0), False),
        (Number(1, 9), Number(1, 0), Number(2, 0), False),
        (Number(2, 0), Number(1, 0), Number(1, 9), False),
    ],
)
def test_the_window_decides(needed: Number, minimum: Number, current: Number, served: bool) -> None:
    window = Window(minimum, current, {})
    if served:
        versions.require_driver(needed, window)
        return
    with pytest.raises(VersionError) as caught:
        versions.require_driver(needed, window)
    for number in (needed, minimum, current):
        assert str(number) in str(caught.value)
    wanted = "--upgrade emu-runtime" if needed < minimum else "emu-driver-shim"
    assert "pip install" in caught.value.mend and wanted in caught.value.mend


def test_an_older_runtime_is_told_what_it_does_not_use(packages: Path) -> None:
    driver = packages / "emu_driver_shim"
    (driver / "compatibility.json").write_text(compatibility(1, 2))
    window = versions.driver_window(driver)
    assert window.beyond(Number(1, 0)) == ["what 1 adds", "what 2 adds"]
    assert window.beyond(Number(1, 1)) == ["what 2 adds"]
    assert window.beyond(Number(1, 2)) == []


def test_the_driver_is_refused_before_any_library_is_loaded(packages: Path) -> None:
    (packages / "emu_driver_shim" / "compatibility.json").write_text(compatibility(2, 0))
    with pytest.raises(VersionError, match=r"needs driver interface 1\.0, .* serves 2\.0 to 2\.0"):
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "'format'"),
        (compatibility(1, 0, format=2), "expected format 1, got 2"),
        (compatibility(1, 0, current=[1]), "missing 1 required"),
        (compatibility(1, 0, current=["a", 0]), "invalid literal"),
        (compatibility(1, 0, adds=[]), "no attribute 'items'"),
        (compatibility(1, 0, adds={"1": []}), "missing 1 required"),
    ],
)
def test_a_damaged_compatibility_file_is_named(packages: Path, text: str, said: str) -> None:
    driver = packages / "emu_driver_shim"
    (driver / "compatibility.json").write_text(text)
    with pytest.raises(VersionError, match=r"compatibility\.json cannot be read: ") as caught:
        versions.driver_window(driver)
    assert said in caught.value.cause


def test_a_missing_compatibility_file_is_named(packages: Path) -> None:
    (packages / "emu_driver_shim" / "compatibility.json").unlink()
    with pytest.raises(VersionError, match=r"compatibility\.json cannot be read: .* No such file"):
        library.load()


def plugin(folder: Path, stamp: str) -> None:
    """A torch_emu that is only its stamp."""
    library = folder / "torch_emu" / "lib" / "torch2.13"
    library.mkdir(parents=True)
    (folder / "torch_emu" / "__init__.py").write_text("raise RuntimeError('must not run')\n")
    (library / "stamp.json").write_text(stamp)


def test_a_plugin_of_a_later_runtime_is_refused_with_both_numbers(packages: Path) -> None:
    plugin(packages, '{"torch": "2.13.0", "plugin": "0.9", "runtime": [1, 99]}')
    assert versions.plugin_needs() == Number(1, 99)
    own = versions.built().runtime
    with pytest.raises(VersionError, match=rf"needs runtime interface 1\.99, .* serves {own}"):
        versions.require_runtime(versions.plugin_needs())
    versions.require_runtime(own)
    with pytest.raises(VersionError):
        versions.require_runtime(Number(own.major - 1, 0))


@pytest.mark.parametrize("stamp", ["", "[]", '{"torch": "2.13.0"}', '{"runtime": [1]}'])
def test_a_plugin_whose_stamp_does_not_tell_is_not_judged(packages: Path, stamp: str) -> None:
    plugin(packages, stamp)
    assert versions.plugin_needs() is None
    versions.require_runtime(None)
