"""Findings of the archive: what two readers could see differently, and what none should unpack."""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Iterator

from qualify.audit import archive
from qualify.audit.archive import DESCRIPTOR_SIZES, Archive, Header, Member
from qualify.audit.finding import Finding
from qualify.audit.prefixes import Paths
from qualify.audit.wheel import Wheel

LONGEST_PART = 255
"""Bytes of a file's or folder's name (NAME_MAX of Linux)."""


def judge(wheel: Wheel) -> Iterator[Finding]:
    facts = wheel.archive
    for flaw in (*facts.flaws, *wheel.unread):
        yield Finding(
            id=flaw.id, wheel=wheel.name, member=flaw.member, offset=flaw.offset, got=flaw.got
        )
    if facts.trailing:
        got = f"{facts.trailing} bytes"
        yield Finding(
            id="zip-trailing-data", wheel=wheel.name, offset=facts.size - facts.trailing, got=got
        )
    if facts.shift:
        got = f"{facts.shift} bytes"
        yield Finding(id="zip-leading-data", wheel=wheel.name, offset=0, got=got)
    for member in facts.members:
        for id, got in (*_name(member), *_kind(member), *_content(member, wheel)):
            yield Finding(id=id, wheel=wheel.name, member=member.name, offset=member.entry, got=got)
    for id, beside, got in (*_together(facts), *_layout(facts)):
        offset = beside.entry if beside else None
        name = beside.name if beside else ""
        yield Finding(id=id, wheel=wheel.name, member=name, offset=offset, got=got)


def _name(member: Member) -> Iterator[tuple[str, str]]:
    name = member.name
    parts = (name[:-1] if name.endswith("/") else name).split("/")
    got = ascii(name)
    try:
        member.raw.decode("utf-8" if member.flags & archive.UTF8 else "ascii")
    except UnicodeDecodeError:
        yield "zip-name-encoding", repr(member.raw)
        return
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        yield "zip-name-absolute", got
    elif "\\" in name:
        yield "zip-name-backslash", got
    elif ".." in parts:
        yield "zip-name-parent", got
    elif "" in parts or "." in parts:
        yield "zip-name-empty-part", got
    elif len(member.raw) > LONGEST_PART and any(
        len(part.encode("utf-8", "replace")) > LONGEST_PART for part in parts
    ):
        yield "zip-name-long", f"a part of more than {LONGEST_PART} bytes"
    if re.search(r"[\x00-\x1f\x7f]", name):
        yield "zip-name-control", got


def _kind(member: Member) -> Iterator[tuple[str, str]]:
    kind = stat.S_IFMT(member.mode)
    if kind == stat.S_IFLNK:
        yield "zip-symlink", f"mode {member.mode:o}"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR) or member.mode & (stat.S_ISUID | stat.S_ISGID):
        yield "zip-special-file", f"mode {member.mode:o}"
    if member.flags & archive.ENCRYPTED:
        yield "zip-encrypted", f"flags {member.flags:#06x}"
    elif member.method not in (archive.STORED, archive.DEFLATED):
        yield "zip-method", f"method {member.method}"
    if member.header is not None and (differs := _differs(member, member.header)):
        yield "zip-header-differs", differs


def _differs(member: Member, header: Header) -> str:
    if header.name != member.raw:
        return f"name {header.name!r}"
    if header.method != member.method:
        return f"method {header.method}, the directory says {member.method}"
    if (header.flags ^ member.flags) & archive.ENCRYPTED:
        return "encryption"
    pairs = (
        ("checksum", header.crc, member.crc),
        ("packed size", header.packed, member.packed),
        ("size", header.size, member.size),
    )
    later = bool(header.flags & archive.LATER)
    for what, here, there in pairs:
        if here != there and not (later and here in (0, archive.FULL32)):
            return f"{what} {here}, the directory says {there}"
    return ""


def _content(member: Member, wheel: Wheel) -> Iterator[tuple[str, str]]:
    content = wheel.contents.get(member.entry)
    if content is None:
        return
    if content.size != member.size:
        more = "more than " if content.size > member.size else f"{content.size} where "
        yield "zip-size", f"{more}{member.size} bytes are stated"
    elif content.packed != member.packed:
        yield "zip-size", f"{content.packed} packed bytes, {member.packed} are stated"
    elif content.crc != member.crc:
        yield "zip-crc", f"{content.crc:08x}, {member.crc:08x} is stated"


def _together(facts: Archive) -> Iterator[tuple[str, Member | None, str]]:
    """What is wrong with names only beside others."""
    exact: dict[str, Member] = {}
    normal: dict[str, str] = {}
    folded: dict[str, str] = {}
    paths = Paths(member.name for member in facts.members)
    for member in facts.members:
        name = member.name
        if name in exact:
            yield "zip-duplicate-name", member, f"first at byte {exact[name].entry}"
            continue
        exact[name] = member
        form = unicodedata.normalize("NFC", name)
        if (other := normal.setdefault(form, name)) != name:
            yield "zip-name-unicode", member, f"{name!a} beside {other!a}"
        elif (other := folded.setdefault(form.casefold(), name)) != name:
            yield "zip-name-case", member, f"beside {other}"
        if not member.is_folder and paths.first_in(name):
            yield "zip-file-and-folder", member, "other members lie in it"


def _layout(facts: Archive) -> Iterator[tuple[str, Member | None, str]]:
    """Members fill the bytes before the directory, one after the other."""
    if facts.flaws:
        return
    end = facts.shift
    allowed: tuple[int, ...] = (0,)
    placed = [(m, m.header) for m in facts.members if m.header is not None]
    for member, header in sorted(placed, key=lambda pair: pair[0].offset):
        gap = member.offset - end
        if gap < 0:
            yield "zip-overlap", member, f"it begins {-gap} bytes before the last one ends"
        elif gap not in allowed:
            yield "zip-hidden-data", member, f"{gap} bytes before it"
        end = max(end, header.data + member.packed)
        allowed = (0, *DESCRIPTOR_SIZES) if header.flags & archive.LATER else (0,)
    if (gap := facts.directory - end) not in allowed:
        id = "zip-overlap" if gap < 0 else "zip-hidden-data"
        yield id, None, f"{abs(gap)} bytes at the directory"
