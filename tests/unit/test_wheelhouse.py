"""A wheelhouse: what is read from one, and files that several share."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from qualify.errors import HostError, InputError
from qualify.interpreter import RoomsOwn, find
from qualify.stage import Stages
from qualify.wheelhouse import REQUIREMENTS, fetch, fetch_companions, pin, read, share, whole

MATRIX = Path(__file__).parents[2] / "matrix"


def test_reading_one_gives_the_version_that_the_wheel_says(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    wheel.write_text("one")
    (tmp_path / REQUIREMENTS).write_text(pin(wheel))
    closure = read(tmp_path, "3.11")
    assert (closure.torch, closure.python) == ("2.13.0+cpu", "3.11")
    wheel.write_text("two")
    (tmp_path / REQUIREMENTS).write_text(pin(wheel))
    assert read(tmp_path, "3.11").sha256 != closure.sha256


def test_one_without_torch_is_damaged(tmp_path: Path) -> None:
    (tmp_path / REQUIREMENTS).touch()
    with pytest.raises(HostError, match="damaged: expected one torch wheel, got 0"):
        read(tmp_path, "3.11")


def test_a_file_of_two_wheelhouses_is_one_on_disk(tmp_path: Path) -> None:
    first, second = tmp_path / "3.11", tmp_path / "3.12"
    for folder in (first, second):
        folder.mkdir()
    for name in ("a-1-py3-none-any.whl", "b-1-py3-none-any.whl"):
        for folder in (first, second):
            (folder / name).write_text(name)
    (second / "b-1-py3-none-any.whl").write_text("other bytes")
    (first / REQUIREMENTS).write_text("".join(map(pin, sorted(first.iterdir()))))
    for wheel in sorted(second.iterdir()):
        share(wheel, pin(wheel), [tmp_path / "gone", first])
    same, other = sorted(second.iterdir())
    assert same.samefile(first / same.name) and same.read_text() == same.name
    assert other.stat().st_nlink == 1, "another digest is another file"


def test_a_damaged_wheelhouse_is_not_taken_from(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.write_text("good")
    assert not whole(tmp_path), "it has no list"
    (tmp_path / REQUIREMENTS).write_text(pin(wheel))
    assert whole(tmp_path)
    wheel.write_text("evil")
    assert not whole(tmp_path)


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


def plain_wheel(folder: Path, name: str, *lines: str) -> None:
    """A wheel of nothing but metadata, with these lines."""
    info = f"{name}-1.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", head + "".join(f"{line}\n" for line in lines))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the index, of pip and of uv."""
    folder = tmp_path / "index"
    folder.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


def test_what_a_python_of_rooms_needs_is_judged_by_that_python(tmp_path: Path, index: Path) -> None:
    plain_wheel(
        index,
        "torch",
        'Requires-Dist: newer; python_version >= "3.99"',
        'Requires-Dist: older; python_version < "3.99"',
    )
    for name in ("newer", "older"):
        plain_wheel(index, name)
    constraints, wanted = tmp_path / "constraints.txt", tmp_path / "requirements.txt"
    constraints.write_text("torch==1\n")
    wanted.write_text('torch\nolder; python_version == "3.10"\n')
    stages = Stages(tmp_path / "cache", keep_free=0)
    closure = fetch(stages, RoomsOwn(minor="3.99"), constraints)
    names = sorted(wheel.name.partition("-")[0] for wheel in closure.folder.glob("*.whl"))
    assert names == ["newer", "torch"] and closure.python == "3.99"
    companions = fetch_companions(stages, RoomsOwn(minor="3.99"), wanted)
    assert [wheel.name.partition("-")[0] for wheel in companions] == ["torch"], "each by itself"


def test_what_cannot_be_resolved_is_told_in_uvs_words(tmp_path: Path, index: Path) -> None:
    (tmp_path / "constraints.txt").write_text("# nothing pinned\n")
    (tmp_path / "requirements.txt").write_text("no-such-thing\n")
    stages = Stages(tmp_path / "cache", keep_free=0)
    with pytest.raises(HostError, match=r"uv could not resolve(.|\n)*no-such-thing"):
        fetch(stages, RoomsOwn(minor="3.14"), tmp_path / "constraints.txt")
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


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_each_python_has_one_companion_of_a_name_and_it_is_pinned(python: str) -> None:
    lines = (MATRIX / "companions.txt").read_text().splitlines()
    asked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    here = [r for r in asked if r.marker is None or r.marker.evaluate({"python_version": python})]
    assert [requirement.name for requirement in here] == ["numpy"]
    assert [clause.operator for requirement in here for clause in requirement.specifier] == ["=="]
