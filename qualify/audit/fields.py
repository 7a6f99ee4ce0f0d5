"""Facts of WHEEL, METADATA and entry_points.txt: fields with the lines that they stand on."""

from __future__ import annotations

import io
import re

import msgspec

MOST = 1 << 20
"""Characters of fields, or of entry points."""


class Field(msgspec.Struct, frozen=True):
    line: int
    name: str
    """In lower case: the standards compare names without regard to it."""
    value: str


class Fields(msgspec.Struct, frozen=True):
    fields: tuple[Field, ...]
    malformed: tuple[tuple[int, str], ...]

    def all(self, name: str) -> list[Field]:
        return [field for field in self.fields if field.name == name]

    def first(self, name: str) -> Field | None:
        return next(iter(self.all(name)), None)

    def value(self, name: str) -> str:
        found = self.first(name)
        return found.value if found else ""


def read(text: str) -> Fields:
    """`Name: value` lines up to the first empty one, continuation lines joined.

    The first `MOST` characters: what has more of them is no file of a wheel, and is malformed.
    """
    fields: list[tuple[int, str, list[str]]] = []
    malformed: list[tuple[int, str]] = []
    for number, line in enumerate(io.StringIO(text[:MOST], newline=None), 1):
        line = line.removesuffix("\n")
        if not line:
            break
        name, colon, value = line.partition(":")
        if line[0] in " \t" and fields:
            fields[-1][2].append(line.strip())
        elif colon and re.fullmatch(r"[\x21-\x39\x3b-\x7e]+", name):
            fields.append((number, name.lower(), [value.strip()]))
        else:
            malformed.append((number, line[:200]))
    else:
        if len(text) > MOST:
            malformed.append((len(fields) + 1, f"fields of more than {MOST} characters"))
    joined = (Field(number, name, "\n".join(lines)) for number, name, lines in fields)
    return Fields(tuple(joined), tuple(malformed))


class EntryPoint(msgspec.Struct, frozen=True):
    line: int
    group: str
    name: str
    module: str


class EntryPoints(msgspec.Struct, frozen=True):
    points: tuple[EntryPoint, ...]
    malformed: tuple[tuple[int, str], ...]


_OBJECT = re.compile(r"([\w.]+)(?:\s*:\s*[\w.]+)?(?:\s*\[.*\])?")


def read_entry_points(text: str) -> EntryPoints:
    points: list[EntryPoint] = []
    malformed: list[tuple[int, str]] = []
    group = ""
    for number, line in enumerate(io.StringIO(text[:MOST], newline=None), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if header := re.fullmatch(r"\[(.+)\]", line):
            group = header[1].strip()
            continue
        name, _, value = line.partition("=")
        if group and name and (point := _OBJECT.fullmatch(value.strip())):
            points.append(EntryPoint(number, group, name.strip(), point[1]))
        else:
            malformed.append((number, line[:200]))
    if len(text) > MOST:
        malformed.append((1, f"more than {MOST} characters"))
    return EntryPoints(tuple(points), tuple(malformed))
