"""A wheelhouse: what is read from one, and files that several share."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.errors import HostError, InputError
from qualify.interpreter import find
from qualify.stage import Stages
from qualify.wheelhouse import SUMS, _forget_unused, _share, fetch, read

MATRIX = Path(__file__).parents[2] / "matrix"


def test_reading_one_gives_the_version_that_the_wheel_says(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl").touch()
    (tmp_path / SUMS).write_text("0  torch\n")
    closure = read(tmp_path, "3.11")
    assert (closure.torch, closure.python) == ("2.13.0+cpu", "3.11")
    (tmp_path / SUMS).write_text("1  torch\n")
    assert read(tmp_path, "3.11").sha256 != closure.sha256


def test_one_without_torch_is_damaged(tmp_path: Path) -> None:
    (tmp_path / SUMS).touch()
    with pytest.raises(HostError, match="damaged: expected one torch wheel, got 0"):
        read(tmp_path, "3.11")


def test_a_file_of_two_wheelhouses_is_one_on_disk(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    stored = tmp_path / "store/digest"
    wheels = [tmp_path / name / "a.whl" for name in ("3.11", "3.12")]
    for wheel in wheels:
        wheel.parent.mkdir()
        wheel.write_text("same")
        _share(wheel, stored)
    assert len({wheel.stat().st_ino for wheel in [*wheels, stored]}) == 1
    _forget_unused(stored.parent)
    assert stored.exists()
    for wheel in wheels:
        wheel.unlink()
    _forget_unused(stored.parent)
    assert not stored.exists()


def test_a_missing_list_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file.*requirements"):
        fetch(Stages(tmp_path, keep_free=0), find(), tmp_path / "constraints.txt")


def test_what_cannot_be_had_is_told_in_pips_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "constraints.txt").write_text("# nothing pinned\n")
    (tmp_path / "requirements.txt").write_text("no-such-thing\n")
    stages = Stages(tmp_path / "cache", keep_free=0)
    with pytest.raises(HostError, match=r"could not download(.|\n)*no-such-thing"):
        fetch(stages, find(), tmp_path / "constraints.txt")
    assert not list((tmp_path / "cache/stages/wheelhouse").glob("*/"))


def test_every_requirement_of_rooms_is_pinned() -> None:
    pinned = {
        line.partition("==")[0]
        for line in (MATRIX / "constraints.txt").read_text().splitlines()
        if "==" in line.partition(";")[0]
    }
    asked = [
        line
        for line in (MATRIX / "requirements.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert asked and set(asked) <= pinned
