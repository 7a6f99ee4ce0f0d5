"""The last resort inherits nothing, and sweeps what dead runs left."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from qualify import owner
from qualify.errors import RoomError
from qualify.plain import Plain, sweep
from qualify.wheelhouse import REQUIREMENTS, pin


def wheelhouse(tmp_path: Path) -> Path:
    """A closure of one wheel, made by hand."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    wheel = folder / "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sample.py", "")
        archive.writestr(
            "sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n"
        )
        archive.writestr(
            "sample-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("sample-1.0.dist-info/RECORD", "")
    (folder / REQUIREMENTS).write_text(pin(wheel))
    return folder


def test_it_inherits_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_CANARY", "outside")
    closure = wheelhouse(tmp_path)
    room = Plain(Path(sys.executable), closure, tmp_path / "rooms")
    try:
        room.start()
        found = room.execute(
            [room.python, "-c", "import sample"], user="room", stdin=b"", timeout=30
        )
        assert found.ok
        done = room.execute(["/usr/bin/env"], user="room", stdin=b"", timeout=30)
        assert done.stdout == "PATH=/usr/bin:/bin\n" and not room.died()
    finally:
        room.close()
    assert room.died() and not list((tmp_path / "rooms").iterdir())


def test_bytes_that_the_closure_does_not_name_are_not_installed(tmp_path: Path) -> None:
    closure = wheelhouse(tmp_path)
    (wheel,) = closure.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("evil.py", "")
    room = Plain(Path(sys.executable), closure, tmp_path / "rooms")
    try:
        with pytest.raises(RoomError, match="sha256"):
            room.start()
    finally:
        room.close()


def test_only_the_folders_of_dead_runs_are_swept(tmp_path: Path) -> None:
    dead, live = tmp_path / "1.1.old-abc", tmp_path / f"{owner.current().text()}-abc"
    dead.mkdir()
    live.mkdir()
    sweep(tmp_path)
    assert live.is_dir() and not dead.exists()
