"""Two wheels are the same bytes, or each thing that differs is told."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from qualify.compare import Difference, compare
from qualify.errors import InputError

Member = tuple[str, bytes]
MEMBERS: list[Member] = [("a.py", b"one\ntwo\n"), ("b.bin", bytes(range(256)))]


def wheel(path: Path, members: list[Member], **facts: object) -> Path:
    """`facts` are set on the first member's entry."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            for what, value in facts.items():
                setattr(entry, what, value)
            facts = {}
            archive.writestr(entry, content)
    return path


def differences(tmp_path: Path, members: list[Member], **facts: object) -> list[tuple[str, str]]:
    found = compare(wheel(tmp_path / "1.whl", MEMBERS), wheel(tmp_path / "2.whl", members, **facts))
    return [(each.member, each.what) for each in found]


def test_the_same_bytes_have_no_difference(tmp_path: Path) -> None:
    assert differences(tmp_path, MEMBERS) == []


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"date_time": (2026, 1, 2, 0, 0, 0)}, "date"),
        ({"external_attr": 0o100755 << 16}, "mode"),
        ({"compress_type": zipfile.ZIP_STORED}, "compression"),
        ({"create_system": 0}, "system"),
        ({"extra": b"UT\x05\x00\x03\x00\x00\x00\x00"}, "extra field"),
        ({"comment": b"hello"}, "comment"),
    ],
)
def test_a_fact_of_an_entry_that_differs_is_told(
    tmp_path: Path, facts: dict[str, object], what: str
) -> None:
    assert ("a.py", what) in differences(tmp_path, MEMBERS, **facts)


def test_members_that_only_one_has_are_named(tmp_path: Path) -> None:
    found = differences(tmp_path, [MEMBERS[0], ("c.py", b"")])
    assert found == [("b.bin", "member"), ("c.py", "member")]


def test_an_order_is_a_difference(tmp_path: Path) -> None:
    assert differences(tmp_path, MEMBERS[::-1]) == [("", "order, from member 0")]


def test_a_member_twice_is_a_difference(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        found = differences(tmp_path, [*MEMBERS, MEMBERS[1]])
    assert found == [("", "order, from member 2")]


def test_text_is_told_by_its_line_and_bytes_by_their_place(tmp_path: Path) -> None:
    one = wheel(tmp_path / "1.whl", MEMBERS)
    changed = bytes([*range(100), 1, *range(101, 256)])
    two = wheel(tmp_path / "2.whl", [("a.py", b"one\n2\n"), ("b.bin", changed)])
    text, binary = compare(one, two)
    assert text.what == "content, from line 2; 8 and 6 bytes"
    assert (text.first[:4], text.second[:2]) == ("two ", "2 ")
    assert binary.what == "content, from byte 100; 256 and 256 bytes"


def test_a_line_that_only_one_has_is_told(tmp_path: Path) -> None:
    (found,) = compare(
        wheel(tmp_path / "1.whl", [("a", b"one\n")]),
        wheel(tmp_path / "2.whl", [("a", b"one\nmore\n")]),
    )
    assert found.what.startswith("content, from line 2") and found.first.startswith("no line")


def test_a_program_is_told_by_its_section(tmp_path: Path) -> None:
    built = []
    for text in ("one", "two"):
        source = tmp_path / f"{text}.c"
        source.write_text(f'const char *text(void) {{ return "{text}"; }}\n')
        words = ["cc", "-shared", "-Wl,--build-id=none", "-Wl,-soname,x", "-s", str(source)]
        subprocess.run([*words, "-o", str(tmp_path / "x.so")], check=True)
        content = (tmp_path / "x.so").read_bytes()
        built.append(wheel(tmp_path / f"{text}.whl", [("x.so", content)]))
    (found,) = compare(*built)
    assert "section .rodata" in found.what


def test_what_is_compressed_otherwise_is_told(tmp_path: Path) -> None:
    content = bytes(1000)
    paths = []
    for level in (1, 9):
        paths.append(tmp_path / f"{level}.whl")
        with zipfile.ZipFile(paths[-1], "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
            archive.writestr(zipfile.ZipInfo("a"), content, zipfile.ZIP_DEFLATED, level)
    found = compare(*paths)
    assert [each.what for each in found] == ["compressed bytes"]


def test_bytes_between_the_members_are_a_difference(tmp_path: Path) -> None:
    one, two = (wheel(tmp_path / f"{n}.whl", MEMBERS) for n in (1, 2))
    two.write_bytes(b"#!/bin/sh\n" + two.read_bytes())
    (found,) = compare(one, two)
    assert isinstance(found, Difference) and found.member == ""
    assert found.what.startswith("bytes of the archive outside")


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_what_is_no_wheel_is_refused(tmp_path: Path, content: bytes | None) -> None:
    one, other = wheel(tmp_path / "1.whl", MEMBERS), tmp_path / "2.whl"
    if content is not None:
        other.write_bytes(content)
    with pytest.raises(InputError, match=r"2\.whl"):
        compare(one, other)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    one, two = (wheel(tmp_path / f"{n}.whl", MEMBERS) for n in (1, 2))
    data = bytearray(two.read_bytes())
    data[35] ^= 0xFF  # in the first member, behind its header of 30 bytes and its name
    two.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"cannot compare 1\.whl and its second build"):
        compare(one, two)
