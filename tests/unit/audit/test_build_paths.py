"""Paths of sources under folders of builds, and what only looks like one."""

from __future__ import annotations

import pytest

from qualify.audit import build_paths

FOLDERS = ("home", "opt/_internal")


@pytest.mark.parametrize(
    "text",
    [b"/home/a/b.c", b"\0/home/a/b/c.hpp\0", b"at /home/a-b/c.rs:12", b"/opt/_internal/x/y.py"],
)
def test_paths(text: bytes) -> None:
    found = build_paths.find(b"xx " + text, FOLDERS)
    assert found is not None and found.count == 1
    assert text[: text.index(b"/") + 5] in text and found.offset == 3 + text.index(b"/")


@pytest.mark.parametrize(
    "text",
    [
        b"/home/a.c",  # no folder below it
        b"/home/a/b",  # no source
        b"/home/a/b.config",
        b"lib/home/a/b.c",  # a path within a wheel
        b"https://example.org/home/a/b.c",
        b"/homes/a/b.c",
        b"/opt/internal/x/y.py",
    ],
)
def test_no_paths(text: bytes) -> None:
    assert build_paths.find(text, FOLDERS) is None


def test_the_first_is_told_and_all_are_counted() -> None:
    found = build_paths.find(b"\0/home/a/b.c\0/home/c/d.c\0" * 3, FOLDERS)
    assert found == build_paths.Paths("/home/a/b.c", 1, 6)


def test_a_path_without_an_end_is_left() -> None:
    assert build_paths.find(b"/home/" + b"a/" * 10_000 + b"b.c", FOLDERS) is None
