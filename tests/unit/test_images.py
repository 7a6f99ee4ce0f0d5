"""The declaration of images: ours is good, a bad one is told with its place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from qualify import images, interpreter
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError, InputError
from qualify.stage import Stages

OURS = Path(__file__).parents[2] / "containers" / "images.toml"


def test_ours_gives_two_operating_systems() -> None:
    declared = images.load(OURS)
    assert len({(image.os_id, image.os_version) for image in declared.room}) >= 2
    assert declared.build.os_version == "11", "older than any room: manylinux_2_28 depends on it"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('glibc = "2.36"', 'glibc = "new"', r"room\[0\].glibc: Expected `str` matching"),
        ('suite = "bookworm"', "suite = 12", r"images.toml:\d+: room\[0\].suite: Expected `str`"),
        ('suite = "bookworm"', 'sweet = "bookworm"', r"room\[0\].*unknown field `sweet`"),
        ('suite = "bookworm"', 'suite = "bookworm', r"images.toml:\d+: not TOML"),
        ('suite = "bookworm"', 'suite = "bookworm"\nupstream = "debian:12"', r"upstream.*sha256"),
        ("[build]", "[built]", r"unknown field `built`"),
    ],
)
def test_a_bad_declaration_names_the_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "images.toml"
    text = OURS.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=says):
        images.load(path)


def test_one_room_is_too_few(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    text = OURS.read_text()
    path.write_text(text[: text.rindex("[[room]]")])
    with pytest.raises(InputError, match=r"room.*length >= 2"):
        images.load(path)


DOCKER = Engine(kind=RoomKind.DOCKER, endpoint="unix:///nowhere")


def test_the_room_with_this_python_of_its_own_comes_first(tmp_path: Path) -> None:
    declared = images.load(OURS)
    python = interpreter.find()
    any_python = msgspec.structs.replace(declared, room=with_glibc(declared, "9.99"))
    stages = Stages(tmp_path, keep_free=0)
    for image in declared.room:
        own = tuple(
            msgspec.structs.replace(i, python=python.minor if i.name == image.name else "3.0")
            for i in any_python.room
        )
        choice = images.choose_rooms(
            stages, DOCKER, msgspec.structs.replace(declared, room=own), python
        )
        assert choice.images[0].name == image.name and len(choice.images) == 2


def test_a_python_for_a_newer_c_library_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    declared = images.load(OURS)
    old = msgspec.structs.replace(declared, room=with_glibc(declared, "2.1"))
    stages = Stages(tmp_path, keep_free=0)
    python = interpreter.find()
    with pytest.raises(HostError) as caught:
        images.choose_rooms(stages, DOCKER, old, python)
    assert f"{python.executable} does not run in enough rooms" in str(caught.value)
    assert "has glibc 2.1" in caught.value.got and "uv python install" in caught.value.mend
    assert {output.name for output in stages.timings} == {"interpreter"}


def with_glibc(declared: images.Declaration, version: str) -> tuple[images.RoomImage, ...]:
    return tuple(msgspec.structs.replace(image, glibc=version) for image in declared.room)
