"""Rows as they are written; what is no row is told with its line, and the others are read."""

from __future__ import annotations

import base64

import pytest

from qualify.audit import record
from qualify.audit.record import Row

DIGEST = base64.urlsafe_b64encode(bytes(range(224, 256))).rstrip(b"=").decode()
HEX = bytes(range(224, 256)).hex()


def test_rows() -> None:
    found = record.read(f"a.py,sha256={DIGEST},3\n\nd/RECORD,,\r\n", 100)
    assert found.rows == (Row(1, "a.py", "sha256", HEX, 3), Row(3, "d/RECORD", "", "", None))
    assert found.malformed == ()


def test_names_with_commas_and_line_breaks() -> None:
    found = record.read(f'"a,b.py",sha256={DIGEST},3\n"c\nd",,\n', 100)
    assert [(row.line, row.path) for row in found.rows] == [(1, "a,b.py"), (3, "c\nd")]


@pytest.mark.parametrize(
    "line", ["a.py", "a.py,", "a.py,sha256=x,3,4", ",sha256=x,3", "a.py,sha256=x,many", "a,b,-1"]
)
def test_what_is_no_row(line: str) -> None:
    found = record.read(f"a.py,,\n{line}\nb.py,,\n", 100)
    assert [row.path for row in found.rows] == ["a.py", "b.py"]
    assert [number for number, _ in found.malformed] == [2]


def test_a_quote_without_an_end() -> None:
    found = record.read('a.py,,\n"b.py,,\nc.py,,\n', 100)
    assert [row.path for row in found.rows] == ["a.py"]
    assert len(found.malformed) == 1


@pytest.mark.parametrize("digest", ["!", "=", "a", "äö"])
def test_what_is_not_base64_is_no_digest(digest: str) -> None:
    (row,) = record.read(f"a.py,sha256={digest},3\n", 100).rows
    assert row.digest == "?"


def test_padding_may_be_there() -> None:
    (row,) = record.read(f"a.py,sha256={DIGEST}=,3\n", 100).rows
    assert row.digest == HEX


def test_a_size_that_no_file_has_is_none() -> None:
    (row,) = record.read(f"a.py,,{'9' * 30}\n", 100).rows
    assert row.size is None
