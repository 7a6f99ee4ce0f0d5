"""Fields and entry points, with the lines that they stand on."""

from __future__ import annotations

import pytest

from qualify.audit import fields
from qualify.audit.fields import EntryPoint, Field


def test_fields_up_to_the_first_empty_line() -> None:
    found = fields.read("Name: small\nVERSION:1.0\r\nSummary:  a: b \n\nName: description\n")
    assert found.fields == (
        Field(1, "name", "small"),
        Field(2, "version", "1.0"),
        Field(3, "summary", "a: b"),
    )
    assert found.malformed == ()


def test_lines_that_go_on() -> None:
    found = fields.read("License: one\n  two\n\tthree\nName: small\n")
    assert found.fields == (Field(1, "license", "one\ntwo\nthree"), Field(4, "name", "small"))


@pytest.mark.parametrize("line", ["Name", ": small", "Na me: small", "Näme: small", " first"])
def test_what_is_no_field(line: str) -> None:
    found = fields.read(f"{line}\nVersion: 1\n")
    assert found.malformed == ((1, line),)
    assert found.value("version") == "1"


def test_several_of_one_name() -> None:
    found = fields.read("Tag: a\nTag: b\n")
    assert [field.value for field in found.all("tag")] == ["a", "b"]
    assert found.value("tag") == "a"
    assert (found.first("none"), found.value("none")) == (None, "")


def test_entry_points() -> None:
    found = fields.read_entry_points(
        "# a comment\n[ console_scripts ]\nsmall = small.cli:main\n; another\n"
        "nice=small:Thing.method [extra, more]\n\n[a.group]\nwhole = small\n"
    )
    assert found.points == (
        EntryPoint(3, "console_scripts", "small", "small.cli"),
        EntryPoint(5, "console_scripts", "nice", "small"),
        EntryPoint(8, "a.group", "whole", "small"),
    )
    assert found.malformed == ()


@pytest.mark.parametrize("line", ["small", "small =", "= small", "small = a b", "small = a:b:c"])
def test_what_is_no_entry_point(line: str) -> None:
    found = fields.read_entry_points(f"[g]\n{line}\n")
    assert (found.points, found.malformed) == ((), ((2, line),))


def test_an_entry_point_without_a_group() -> None:
    assert fields.read_entry_points("small = small\n").malformed == ((1, "small = small"),)
