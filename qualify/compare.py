"""How two wheels of one name differ, member by member: for a build that should give the same bytes.

Nothing is ignored: an order, a date or a mode that differs is a difference, as is a byte
between the members.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from qualify.content import sha256_of
from qualify.errors import InputError

_SHOWN_BYTES = 24
_FACTS: tuple[tuple[str, Callable[[zipfile.ZipInfo], object]], ...] = (
    ("date", lambda entry: "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format(*entry.date_time)),
    ("mode", lambda entry: f"{entry.external_attr >> 16:o}"),
    ("attributes", lambda entry: f"{entry.external_attr & 0xFFFF:#x}"),
    ("compression", lambda entry: entry.compress_type),
    ("system", lambda entry: entry.create_system),
    ("zip version", lambda entry: (entry.create_version, entry.extract_version)),
    ("flags", lambda entry: f"{entry.flag_bits:#x}"),
    ("extra field", lambda entry: entry.extra.hex()),
    ("comment", lambda entry: entry.comment.hex()),
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in which two wheels differ. `member` is "" where it is about the archive."""

    member: str
    what: str
    first: str
    second: str


def compare(first: Path, second: Path) -> tuple[Difference, ...]:
    """All differences; none if and only if the files are the same bytes.

    Raises InputError for a file that is no zip archive.
    """
    with _opened(first) as one, _opened(second) as two:
        if sha256_of(first) == sha256_of(second):
            return ()
        try:
            found = list(_differences(one, two))
        except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            names = f"{first.name} and its second build"
            raise InputError(f"cannot compare {names}: {error}", expected="two wheels") from error
    return tuple(found) or (
        Difference(
            member="",
            what="bytes of the archive outside of its members and their facts",
            first=f"{first.stat().st_size} bytes",
            second=f"{second.stat().st_size} bytes",
        ),
    )


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot compare {path}: {error}", expected="a wheel") from error


def _differences(one: zipfile.ZipFile, two: zipfile.ZipFile) -> Iterator[Difference]:
    names = [[entry.filename for entry in archive.infolist()] for archive in (one, two)]
    only = [sorted(set(names[0]) - set(names[1])), sorted(set(names[1]) - set(names[0]))]
    for name in only[0]:
        yield Difference(member=name, what="member", first="there", second="not there")
    for name in only[1]:
        yield Difference(member=name, what="member", first="not there", second="there")
    if not any(only) and names[0] != names[1]:
        at = next(i for i, (a, b) in enumerate(zip_longest(*names)) if a != b)
        here = [each[at] if at < len(each) else "none" for each in names]
        yield Difference(member="", what=f"order, from member {at}", first=here[0], second=here[1])
    for name in sorted(set(names[0]) & set(names[1])):
        entries = one.getinfo(name), two.getinfo(name)
        for what, fact in _FACTS:
            if fact(entries[0]) != fact(entries[1]):
                yield Difference(
                    member=name,
                    what=what,
                    first=str(fact(entries[0])),
                    second=str(fact(entries[1])),
                )
        contents = one.read(name), two.read(name)
        if contents[0] != contents[1]:
            yield _content(name, *contents)
        elif entries[0].compress_size != entries[1].compress_size:
            yield Difference(
                member=name,
                what="compressed bytes",
                first=str(entries[0].compress_size),
                second=str(entries[1].compress_size),
            )
    if one.comment != two.comment:
        yield Difference(
            member="",
            what="comment of the archive",
            first=one.comment.hex(),
            second=two.comment.hex(),
        )


def _content(name: str, first: bytes, second: bytes) -> Difference:
    """The first place where the contents differ, in the terms of what they are."""
    at = next(i for i, (a, b) in enumerate(zip_longest(first, second)) if a != b)
    where, shown = f"byte {at}", (_around(first, at), _around(second, at))
    if section := _section(first, at):
        where = f"section {section}, {where}"
    else:
        try:
            lines = [text.decode().splitlines() for text in (first, second)]
        except UnicodeDecodeError:
            lines = []
        for number, (a, b) in enumerate(zip_longest(*lines, fillvalue="no line"), start=1):
            if a != b:
                where, shown = f"line {number}", (a, b)
                break
    return Difference(
        member=name,
        what=f"content, from {where}; {len(first)} and {len(second)} bytes",
        first=f"{shown[0]} (sha256 {hashlib.sha256(first).hexdigest()[:12]})",
        second=f"{shown[1]} (sha256 {hashlib.sha256(second).hexdigest()[:12]})",
    )


def _around(content: bytes, at: int) -> str:
    piece = content[max(0, at - _SHOWN_BYTES // 2) : at + _SHOWN_BYTES // 2]
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)


def _section(content: bytes, at: int) -> str:
    """The section of an ELF file that holds byte `at`; "" for what is none."""
    if not content.startswith(b"\x7fELF"):
        return ""
    try:
        for section in ELFFile(io.BytesIO(content)).iter_sections():
            start = section["sh_offset"]
            if section["sh_type"] != "SHT_NOBITS" and start <= at < start + section["sh_size"]:
                return str(section.name)
    except (ELFError, KeyError, ValueError):
        return ""
    return ""
