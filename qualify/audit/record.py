"""Facts of a wheel's RECORD: its rows, as they are written."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from collections.abc import Iterator

import msgspec


class Row(msgspec.Struct, frozen=True, gc=False):
    line: int
    path: str
    algorithm: str
    digest: str
    """Hexadecimal; empty where the row has none, "?" where it is not base64."""
    size: int | None


class Record(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    malformed: tuple[tuple[int, str], ...]
    """Line and text of what is no row of three fields with a number as the third."""


def read(text: str, most: int) -> Record:
    """Of more than `most` rows the first, and the next is malformed."""
    rows: list[Row] = []
    malformed: list[tuple[int, str]] = []
    lines = csv.reader(_lines(text), strict=True)
    while len(rows) + len(malformed) < most:
        try:
            fields = next(lines, None)
        except csv.Error as error:
            malformed.append((lines.line_num, str(error)))
            continue
        if fields is None:
            return Record(tuple(rows), tuple(malformed))
        if not fields:
            continue
        if len(fields) != 3 or not fields[0] or not (fields[2].isdecimal() or not fields[2]):
            malformed.append((lines.line_num, ",".join(fields)[:200]))
            continue
        path, hashed, size = fields
        algorithm, _, digest = hashed.partition("=")
        length = int(size) if size and len(size) < 20 else None
        rows.append(Row(lines.line_num, path, algorithm, _hexadecimal(digest), length))
    malformed.append((lines.line_num + 1, f"more than {most} rows"))
    return Record(tuple(rows), tuple(malformed))


def _lines(text: str) -> Iterator[str]:
    """As a file gives them that is opened as csv asks, but without a copy of the text."""
    return (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))


def _hexadecimal(digest: str) -> str:
    try:
        padded = digest + "=" * (-len(digest) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).hex()
    except (binascii.Error, ValueError):
        return "?"
