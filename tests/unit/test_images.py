"""The declaration of images: ours is good, a bad one is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify import images
from qualify.errors import InputError

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
