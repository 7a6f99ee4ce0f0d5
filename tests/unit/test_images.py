"""The declaration of images: ours is good, a bad one is told with its place."""

from __future__ import annotations

import re
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


ROOM, BUILD, COMPILED = "[[room]]", "[build]", "[[compiled]]"


@pytest.mark.parametrize(
    ("table", "old", "new", "key", "says"),
    [
        (ROOM, '"debian12"', '""', "room[0].name", "matching regex"),
        (ROOM, '"debian12"', '"../x"', "room[0].name", "matching regex"),
        (ROOM, '"debian12"', '"Debian 12"', "room[0].name", "matching regex"),
        (ROOM, '"debian12"', r'"debian12\n"', "room[0].name", "matching regex"),
        (
            ROOM,
            'name = "debian13"',
            'name = "debian12"',
            "room[1].name",
            "expected each one once, got debian12, which is room[0].name too",
        ),
        (ROOM, 'os_id = "debian"', 'os_id = "Debian Linux"', "room[0].os_id", "matching regex"),
        (ROOM, 'os_version = "12"', 'os_version = ""', "room[0].os_version", "matching regex"),
        (ROOM, '"bookworm"', '"book; rm"', "room[0].suite", "matching regex"),
        (ROOM, '"bookworm"', '"--help"', "room[0].suite", "matching regex"),
        (ROOM, '"3.11"', '"eleven"', "room[0].python", "matching regex"),
        (ROOM, '"3.11"', '"3.\u0661\u0661"', "room[0].python", "matching regex"),
        (ROOM, '"2.36"', '"\u0662.36"', "room[0].glibc", "matching regex"),
        (ROOM, '["ca-certificates"', '["--foo"', "room[0].packages[0]", "matching regex"),
        (ROOM, '["ca-certificates"', '["python3-"', "room[0].packages[0]", "matching regex"),
        (
            ROOM,
            '["ca-certificates", "python3", "python3-venv"]',
            "[]",
            "room[0].packages",
            "Expected `array` of length >= 1",
        ),
        (
            ROOM,
            '["ca-certificates"',
            '["python3"',
            "room[0].packages[1]",
            "expected each one once, got python3, which is room[0].packages[0] too",
        ),
        (BUILD, '"auditwheel==6.4.2"', '"-r /etc/passwd"', "build.tools[0]", "matching regex"),
        (BUILD, '"auditwheel==6.4.2"', '"build"', "build.tools[0]", "matching regex"),
        (BUILD, '"auditwheel==6.4.2"', '"build>=1.4.4"', "build.tools[0]", "matching regex"),
        (BUILD, '"auditwheel==6.4.2"', '"build==1.*"', "build.tools[0]", "matching regex"),
        (
            BUILD,
            '"auditwheel==6.4.2"',
            '"Importlib_Metadata==8.0"',
            "build.tools[2]",
            "expected each one once, got importlib-metadata, which is build.tools[0] too",
        ),
        (
            BUILD,
            'python = "3.9"',
            f'python = "3.9"\nupstream = "--all debian@sha256:{"0" * 64}"',
            "build.upstream",
            "matching regex",
        ),
        (
            COMPILED,
            '"debian11"',
            '"debian10"',
            "compiled[0].room",
            "expected one of debian12, debian13, debian-forky, debian11, got debian10",
        ),
        (
            COMPILED,
            'python = "3.11"',
            'python = "3.9"',
            "compiled[0].python",
            "expected one that debian11 has not of its own, got 3.9",
        ),
        (COMPILED, '"bookworm"', '"--help"', "compiled[0].suite", "matching regex"),
        (COMPILED, '"python3.11"', '"python3.11; rm"', "compiled[0].source", "matching regex"),
        (COMPILED, '"python3.11"', '"-o"', "compiled[0].source", "matching regex"),
        (
            COMPILED,
            '"libbz2-dev"',
            '"gcc"',
            "compiled[0].packages[1]",
            "expected each one once, got gcc, which is compiled[0].packages[0] too",
        ),
    ],
)
def test_a_value_of_another_form_is_named_to_the_line(
    tmp_path: Path, table: str, old: str, new: str, key: str, says: str
) -> None:
    path = tmp_path / "images.toml"
    head, mark, tail = OURS.read_text().partition(table)
    assert old in tail
    path.write_text(head + mark + tail.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        images.load(path)
    place = re.match(rf"{path}:(\d+): {re.escape(key)}: ", str(caught.value))
    assert place and says in str(caught.value)
    field = key.split(".")[1].partition("[")[0]
    assert path.read_text().splitlines()[int(place[1]) - 1].startswith(f"{field} = ")


def test_a_python_is_compiled_once_for_a_room(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    head, mark, tail = OURS.read_text().partition(COMPILED)
    table = tail.partition("\n[[")[0].partition("\n#")[0]
    path.write_text(f"{head}{mark}{table}\n{mark}{tail}")
    with pytest.raises(InputError, match=r"compiled\[1\].*each one once, got 3.11 in debian11"):
        images.load(path)


def test_an_image_of_a_registry_by_digest(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    upstream = f"registry.example:5000/some/Debian_12@sha256:{'0' * 64}"
    text = OURS.read_text()
    path.write_text(text.replace(BUILD, f'{BUILD}\nupstream = "{upstream}"'))
    assert images.load(path).build.upstream == upstream


def test_one_room_is_too_few(tmp_path: Path) -> None:
    path = tmp_path / "images.toml"
    text = OURS.read_text()
    path.write_text(text[: text.index("[[room]]", text.index("[[room]]") + 1)])
    with pytest.raises(InputError, match=r"room.*length >= 2"):
        images.load(path)


def test_a_room_is_named_by_image_and_setting() -> None:
    declared = images.load(OURS)
    assert images.named(declared, "debian12") == (declared.room[0], images.PLAIN)
    image, setting = images.named(declared, "debian13+read-only")
    assert image.name == "debian13" and setting.read_only and setting.user == 1000


@pytest.mark.parametrize(
    "name", ["debian9", "debian12+tired", "debian12+", "+root", "debian12+root+network", ""]
)
def test_a_room_that_is_not_declared_is_told_beside_those_that_are(name: str) -> None:
    with pytest.raises(InputError, match="unknown room") as caught:
        images.named(images.load(OURS), name)
    assert "debian12" in caught.value.expected and "+read-only" in caught.value.expected


@pytest.mark.parametrize("name", ["root", "plain"])
def test_a_setting_is_declared_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / "images.toml"
    path.write_text(f'{OURS.read_text()}\n[[setting]]\nname = "{name}"\n')
    with pytest.raises(InputError, match="expected each one once"):
        images.load(path)
