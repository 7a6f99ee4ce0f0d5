"""The last resort inherits nothing, and sweeps what dead runs left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qualify import owner
from qualify.plain import Plain, sweep


def test_it_inherits_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_CANARY", "outside")
    (tmp_path / "wheelhouse").mkdir()
    (tmp_path / "wheelhouse/requirements.txt").write_text("pip\n")  # the environment has it
    room = Plain(Path(sys.executable), tmp_path / "wheelhouse", tmp_path / "rooms")
    try:
        room.start()
        done = room.execute(["/usr/bin/env"], user="room", stdin=b"", timeout=30)
        assert done.stdout == "PATH=/usr/bin:/bin\n" and not room.died()
    finally:
        room.close()
    assert room.died() and not list((tmp_path / "rooms").iterdir())


def test_only_the_folders_of_dead_runs_are_swept(tmp_path: Path) -> None:
    dead, live = tmp_path / "1.1.old-abc", tmp_path / f"{owner.current().text()}-abc"
    dead.mkdir()
    live.mkdir()
    sweep(tmp_path)
    assert live.is_dir() and not dead.exists()
