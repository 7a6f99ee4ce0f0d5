"""Facts of a ZIP archive, read without believing it.

`zipfile` and every installer each decide for themselves what a damaged archive means; here the
directory, the local headers and the bytes are read apart, so that they can be compared. Nothing
is judged but what cannot be read at all: a `Flaw`. Memory is bounded by one chunk and the
directory, time by the sizes that the directory states and by `Limits`.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Protocol, cast

import msgspec
from zlib_ng import zlib_ng

CHUNK = 1 << 19
END, END64, LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
ENTRY, LOCAL = b"PK\x01\x02", b"PK\x03\x04"
END_SIZE, END64_SIZE, LOCATOR64_SIZE, ENTRY_SIZE, LOCAL_SIZE = 22, 56, 20, 46, 30
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF
DESCRIPTOR_SIZES = (12, 16, 20, 24)
"""Bytes after a member whose sizes were unknown when it was begun: with its mark or without,
of 32 or of 64 bits (APPNOTE 4.3.9)."""
STORED, DEFLATED = 0, 8
ENCRYPTED, LATER, UTF8 = 1 << 0, 1 << 3, 1 << 11
ZIP64_EXTRA = 1
LONGEST_NAME = 4096
"""Bytes of a path that a system opens (PATH_MAX of Linux)."""
SHOWN = 100


Count = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read of one wheel. Past it there is a finding, and the rest stays unread."""

    members: Count
    unpacked_bytes: Count
    ratio: Count
    """Of unpacked to packed bytes of a member over `ratio_above` bytes."""
    ratio_above: Count
    text_bytes: Count
    """Of a file of the dist-info folder, and of the archive's directory."""


class Flaw(msgspec.Struct, frozen=True):
    """Why a part could not be read: the id of its finding, the member, the byte, what was found."""

    id: str
    member: str
    offset: int
    got: str


class Header(msgspec.Struct, frozen=True, gc=False):
    """What the local header says, which installers that stream believe."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    data: int
    """Offset of the first byte of the member's data."""


class Content(msgspec.Struct, frozen=True, gc=False):
    """What the bytes are. `packed` and `size` are what was used and what came out."""

    digest: str
    crc: int
    packed: int
    size: int


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of the directory. `offset` and `entry` are of its local header and of itself."""

    name: str
    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    """Unix mode, 0 where the archive was made by a system that has none."""
    offset: int
    entry: int
    header: Header | None

    @property
    def is_folder(self) -> bool:
        return self.raw.endswith(b"/")


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    directory: int
    """Offset of the first directory entry; what is before it belongs to members."""
    shift: int
    """Bytes that were put before the archive after it was made."""
    trailing: int
    """Bytes after its end."""
    members: tuple[Member, ...]
    flaws: tuple[Flaw, ...]


_InflateError = cast(type[Exception], zlib_ng.error)
"""Its stubs call the class an instance."""


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class _Broken(Exception):
    def __init__(self, id: str, offset: int, got: str) -> None:
        self.flaw = Flaw(id, "", offset, got)


def read(file: BinaryIO, limits: Limits) -> Archive:
    """The directory and the local headers. OSError comes through; nothing else does."""
    size = file.seek(0, os.SEEK_END)
    flaws: list[Flaw] = []
    members: list[Member] = []
    directory = shift = trailing = 0
    try:
        end, count, length, offset, trailing = _end(file, size)
        directory = end - length
        if directory < 0 or directory < offset:
            got = f"a directory of {length} bytes at {offset} that ends at {end}"
            raise _Broken("zip-unreadable", end, got)
        if length > limits.text_bytes:
            raise _Broken("zip-bomb", directory, f"a directory of {length} bytes")
        shift = directory - offset
        for member in _entries(_at(file, directory, length), directory, shift, limits, count):
            if len(member.raw) > LONGEST_NAME:
                got = f"{len(member.raw)} bytes"
                flaws.append(Flaw("zip-name-long", member.name[:SHOWN], member.entry, got))
                continue
            local = _header(file, member, directory)
            header = local if isinstance(local, Header) else None
            if isinstance(local, Flaw):
                flaws.append(local)
            members.append(msgspec.structs.replace(member, header=header))
    except _Broken as broken:
        flaws.append(broken.flaw)
    return Archive(
        size=size,
        directory=directory,
        shift=shift,
        trailing=trailing,
        members=tuple(members),
        flaws=tuple(flaws),
    )


def _at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _end(file: BinaryIO, size: int) -> tuple[int, int, int, int, int]:
    """Where the directory ends, its entries, length and stated offset, and the bytes after all."""
    start = max(0, size - END_SIZE - FULL16)
    tail = _at(file, start, size - start)
    at = tail.rfind(END)
    if at < 0 or len(tail) - at < END_SIZE:
        raise _Broken("zip-unreadable", size, "no end-of-directory record")
    place = start + at
    disk, first, here, count, length, offset, comment = struct.unpack_from("<4H2LH", tail, at + 4)
    trailing = size - place - END_SIZE - comment
    if trailing < 0:
        raise _Broken("zip-unreadable", place, f"a comment that is cut short by {-trailing} bytes")
    locator = _at(file, place - LOCATOR64_SIZE, LOCATOR64_SIZE) if place >= LOCATOR64_SIZE else b""
    wants = FULL16 in (disk, first, here, count) or FULL32 in (length, offset)
    if locator[:4] == LOCATOR64:
        return *_end64(file, locator, place, (count, length, offset)), trailing
    if wants and (length == FULL32 or offset == FULL32):
        raise _Broken("zip-zip64", place, "values of 64 bits announced, and no record of them")
    if disk or first or here != count:
        raise _Broken("zip-disks", place, f"disk {disk} of an archive of several")
    return place, count, length, offset, trailing


def _end64(
    file: BinaryIO, locator: bytes, end: int, short: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    _, stated, disks = struct.unpack_from("<LQL", locator, 4)
    place = end - LOCATOR64_SIZE - END64_SIZE  # what is stated moves with bytes put before it
    record = _at(file, place, END64_SIZE) if place >= 0 else b""
    if record[:4] != END64 or stated > place or disks > 1:
        got = f"a locator of {disks} disks that points at {stated}"
        raise _Broken("zip-zip64", end - LOCATOR64_SIZE, got)
    disk, first, here, count, length, offset = struct.unpack_from("<2L4Q", record, 16)
    for value, small, full in zip(
        (count, length, offset), short, (FULL16, FULL32, FULL32), strict=True
    ):
        if small not in (value, full):
            got = f"{value} where the record of 32 bits says {small}"
            raise _Broken("zip-zip64", place, got)
    if disk or first or here != count:
        raise _Broken("zip-disks", place, f"disk {disk} of an archive of several")
    return place, count, length, offset


def _entries(
    data: bytes, directory: int, shift: int, limits: Limits, count: int
) -> Iterator[Member]:
    at = found = 0
    while at < len(data):
        if len(data) - at < ENTRY_SIZE or data[at : at + 4] != ENTRY:
            raise _Broken("zip-unreadable", directory + at, "no directory entry where one must be")
        if found == limits.members:
            raise _Broken("zip-bomb", directory + at, f"more than {found} members")
        made, _, flags, method, _, _, crc, packed, size = struct.unpack_from("<6H3L", data, at + 4)
        lengths = struct.unpack_from("<3H", data, at + 28)
        attributes, offset = struct.unpack_from("<2L", data, at + 38)
        name_at = at + ENTRY_SIZE
        extra_at = name_at + lengths[0]
        raw, extra = data[name_at:extra_at], data[extra_at : extra_at + lengths[1]]
        if len(data) - at < ENTRY_SIZE + sum(lengths):
            raise _Broken("zip-unreadable", directory + at, "a directory entry that is cut short")
        wide = _wide(extra, (size, packed, offset), directory + at)
        size, packed, offset = wide
        yield Member(
            name=_name(raw),
            raw=raw,
            flags=flags,
            method=method,
            crc=crc,
            packed=packed,
            size=size,
            mode=attributes >> 16 if made >> 8 == 3 else 0,
            offset=offset + shift,
            entry=directory + at,
            header=None,
        )
        found += 1
        at += ENTRY_SIZE + sum(lengths)
    if found != count:
        got = f"{found} directory entries where the end record counts {count}"
        raise _Broken("zip-unreadable", directory + at, got)


def _name(raw: bytes) -> str:
    """As UTF-8, which names of a wheel are; what is not stays visible. Whether it is marked as
    UTF-8, and valid, is judged by `Member.raw` and `Member.flags`."""
    return raw.decode("utf-8", "backslashreplace")


def _wide(extra: bytes, values: tuple[int, ...], place: int) -> tuple[int, ...]:
    """`values`, each that is all ones replaced by its 64 bits from the extra field."""
    wanted = [n for n, value in enumerate(values) if value == FULL32]
    if not wanted:
        return values
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if kind == ZIP64_EXTRA and len(body) == length >= 8 * len(wanted):
            found = struct.unpack_from(f"<{len(wanted)}Q", body)
            swapped = dict(zip(wanted, found, strict=True))
            return tuple(swapped.get(n, value) for n, value in enumerate(values))
        at += 4 + length
    raise _Broken("zip-zip64", place, "values of 64 bits announced, and no extra field has them")


def _header(file: BinaryIO, member: Member, directory: int) -> Header | Flaw:
    data = _at(file, member.offset, LOCAL_SIZE) if member.offset < directory else b""
    if len(data) < LOCAL_SIZE or data[:4] != LOCAL:
        got = f"no local header at {member.offset}"
        return Flaw("zip-local-header", member.name, member.entry, got)
    flags, method, crc, packed, size, named, extra = struct.unpack_from("<2H4x3L2H", data, 6)
    tail = file.read(named + extra)
    if len(tail) < named + extra:
        got = f"a local header at {member.offset} that is cut short"
        return Flaw("zip-local-header", member.name, member.entry, got)
    try:
        size, packed = _wide(tail[named:], (size, packed), member.offset)
    except _Broken as broken:
        return msgspec.structs.replace(broken.flaw, member=member.name)
    begin = member.offset + LOCAL_SIZE + named + extra
    # Any number of members may share one header: the same name is not kept again, nor a long one.
    name = member.raw if tail[:named] == member.raw else tail[: min(named, LONGEST_NAME)]
    return Header(name, flags, method, crc, packed, size, begin)


def unpack(
    file: BinaryIO, member: Member, header: Header, sink: Sink, algorithm: str = "sha256"
) -> Content | Flaw:
    """Write what `member` holds to `sink`, up to a chunk more than it says, and sum it up."""
    if member.method not in (STORED, DEFLATED) or member.flags & ENCRYPTED:
        raise ValueError("judged before it is read: method and encryption")
    digest, crc, made, used = hashlib.new(algorithm), 0, 0, 0
    inflate = zlib_ng.decompressobj(-15) if member.method == DEFLATED else None
    file.seek(header.data)
    try:
        while used < member.packed and made <= member.size:
            data = file.read(min(CHUNK // 4, member.packed - used))
            if not data:
                got = f"the file ends {member.packed - used} bytes before the member does"
                return Flaw("zip-cut", member.name, header.data + used, got)
            used += len(data)
            more = True  # a full chunk may have left some inside of zlib
            while more and made <= member.size:
                out = data if inflate is None else inflate.decompress(data, CHUNK)
                data = b"" if inflate is None else inflate.unconsumed_tail
                digest.update(out)
                crc = zlib_ng.crc32(out, crc)
                made += len(out)
                sink.write(out)
                more = bool(data) or (inflate is not None and len(out) == CHUNK)
            if inflate is not None and inflate.eof:
                used -= len(inflate.unused_data)
                break
    except _InflateError as error:
        return Flaw("zip-deflate", member.name, header.data + used, str(error))
    if inflate is not None and not inflate.eof and made <= member.size:
        return Flaw("zip-cut", member.name, header.data + used, "its compressed data has no end")
    return Content(digest.hexdigest(), crc, used, made)
