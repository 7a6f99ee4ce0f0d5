"""Defects of the archive, made with zipfile where it makes them and with patched bytes else."""

from __future__ import annotations

import io
import random
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from broken_wheels.defect import Defect, changed, limited
from broken_wheels.good import Wheel, directory, entry, local, patch, pure, row

DATA = "small/data.txt"


def bytes_changed(change: Callable[[bytes], bytes]) -> Callable[[], Wheel]:
    return changed(lambda wheel: setattr(wheel, "then", change))


def file_added(name: str, mode: int = 0o100644) -> Callable[[], Wheel]:
    def add(wheel: Wheel) -> None:
        wheel.entries[name] = b"a file"
        wheel.modes[name] = mode

    return changed(add)


def both(name: str, at_local: int, at_entry: int, new: bytes) -> Callable[[bytes], bytes]:
    """The same change in the local header and in the directory."""

    def change(data: bytes) -> bytes:
        data = patch(data, local(data, name) + at_local, new)
        return patch(data, entry(data, name) + at_entry, new)

    return change


def end(data: bytes) -> int:
    return data.rindex(b"PK\x05\x06")


def wide(data: bytes, *, points_right: bool = True) -> bytes:
    """With end records of 64 bits, the locator pointing to the record or not."""
    at = end(data)
    count, length, offset = struct.unpack_from("<H2L", data, at + 10)
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, offset
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at if points_right else at + 9999, 1)
    short = patch(data[at:], 16, b"\xff" * 4)
    return data[:at] + record + locator + short


def without_record(data: bytes) -> bytes:
    return patch(data, end(data) + 16, b"\xff" * 4)


def of_two_disks(data: bytes) -> bytes:
    return patch(data, end(data) + 4, struct.pack("<2H", 1, 1))


def commented(data: bytes) -> bytes:
    return patch(data, end(data) + 20, struct.pack("<H", 4)) + b"more"


def hidden(data: bytes) -> bytes:
    """A whole member between the last one and the directory, which does not have it."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("small/hidden.py", "print('here')\n")
    member = inner.getvalue()[: directory(inner.getvalue())]
    at = directory(data)
    data = data[:at] + member + data[at:]
    return patch(data, end(data) + 16, struct.pack("<L", at + len(member)))


def streamed(data: bytes) -> bytes:
    """The same members as a writer leaves them that cannot seek: sizes after the data."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(pipe, "w") as new:
        for info in old.infolist():
            with new.open(zipfile.ZipInfo(info.filename, info.date_time), "w") as file:
                file.write(old.read(info))
    return pipe.getvalue()


def overlapping() -> Wheel:
    """A stored member that goes on into the header of the next one, checksums and all."""
    wheel = pure()
    wheel.methods[DATA] = zipfile.ZIP_STORED
    size = len(wheel.entries[DATA])
    with tempfile.TemporaryDirectory() as place:
        data = wheel.write(Path(place)).read_bytes()
    begin = local(data, DATA) + 30 + len(DATA)
    longer = data[begin : begin + size + 20]
    old, new = row(DATA, wheel.entries[DATA]), row(DATA, longer)
    wheel.record = lambda rows: [new if each == old else each for each in rows]
    sums = struct.pack("<3L", zlib.crc32(longer), len(longer), len(longer))
    wheel.then = both(DATA, 14, 16, sums)
    return wheel


def twice(wheel: Wheel) -> None:
    wheel.again.append((DATA, wheel.entries[DATA]))


def unmarked(wheel: Wheel) -> None:
    """A name in UTF-8 without the flag that says so."""
    name = "small/\u00e9.txt"
    wheel.entries[name] = b"a file"

    def clear(data: bytes) -> bytes:
        at = entry(data, name)
        flags = struct.unpack_from("<H", data, at + 8)[0] & ~(1 << 11)
        return both(name, 6, 8, struct.pack("<H", flags))(data)

    wheel.then = clear


def two_forms(wheel: Wheel) -> None:
    for form in ("NFC", "NFD"):
        wheel.entries[unicodedata.normalize(form, "small/\u00e9.txt")] = b"a file"


def cut(data: bytes) -> bytes:
    """The last member's data without its last two bytes."""
    at = directory(data)
    last = next(n for n in zipfile.ZipFile(io.BytesIO(data)).namelist()[::-1])
    packed = struct.unpack_from("<L", data, entry(data, last) + 20)[0] - 2
    data = both(last, 18, 20, struct.pack("<L", packed))(data)
    data = data[: at - 2] + data[at:]
    return patch(data, end(data) + 16, struct.pack("<L", at - 2))


def large(data: bytes) -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.entries.update({"small/large.bin": data}))


def spoiled(data: bytes) -> bytes:
    """A block of a type that there is not."""
    return patch(data, local(data, DATA) + 30 + len(DATA), b"\x07")


OUTSIDE = "/var/tmp/small-outside/evil.conf"
"""A place that anyone may write to, so that what an installer does shows, and can be removed."""
PLAIN = random.Random(4).randbytes(2_000_000)
COMPOSED = file_added("small/\u00e9.txt")

DEFECTS = [
    Defect("zip-unreadable", bytes_changed(lambda data: data[:-30]), case="cut"),
    Defect("zip-unreadable", bytes_changed(lambda data: b"PK but no archive"), case="no-zip"),
    Defect("zip-unreadable", bytes_changed(lambda data: b""), case="empty"),
    Defect("zip-unreadable", bytes_changed(lambda data: data[50:]), case="no-begin"),
    Defect("zip-zip64", bytes_changed(lambda d: wide(d, points_right=False)), bytes_changed(wide)),
    Defect("zip-zip64", bytes_changed(without_record), bytes_changed(wide), case="no-record"),
    Defect("zip-disks", bytes_changed(of_two_disks)),
    Defect("zip-leading-data", bytes_changed(lambda data: b"#!/bin/sh\n" + data)),
    Defect("zip-trailing-data", bytes_changed(lambda d: d + b"more"), bytes_changed(commented)),
    Defect("zip-hidden-data", bytes_changed(hidden), bytes_changed(streamed)),
    Defect("zip-overlap", overlapping),
    Defect("zip-duplicate-name", changed(twice)),
    Defect("zip-name-case", file_added("small/DATA.txt"), file_added("small/more.txt")),
    Defect("zip-name-unicode", changed(two_forms), COMPOSED),
    Defect("zip-name-absolute", file_added(OUTSIDE), file_added("small/evil.conf")),
    Defect("zip-name-absolute", file_added("C:/small.conf"), case="drive"),
    Defect("zip-name-parent", file_added("small/../../evil.py"), file_added("small/evil.py")),
    Defect("zip-name-backslash", file_added("small\\evil.py"), file_added("small/evil.py")),
    Defect("zip-name-long", file_added(f"small/{'a' * 256}"), file_added(f"small/{'a' * 255}")),
    Defect(
        "zip-name-long",
        changed(lambda wheel: wheel.again.append((f"small/{'a/' * 2100}b", b""))),
        case="path",
    ),
    Defect("zip-name-control", file_added("small/a\x1b[2Jb.py"), file_added("small/ab.py")),
    Defect("zip-name-empty-part", file_added("small//evil.py"), file_added("small/more/evil.py")),
    Defect(
        "zip-name-empty-part",
        file_added("./small/evil.py"),
        file_added("small/evil.py"),
        case="dot",
    ),
    Defect("zip-name-encoding", changed(unmarked), COMPOSED),
    Defect(
        "zip-file-and-folder",
        changed(lambda wheel: wheel.entries.update({"small/a": b"a", "small/a/b.txt": b"b"})),
        changed(lambda wheel: wheel.entries.update({"small/a/": b"", "small/a/b.txt": b"b"})),
    ),
    Defect("zip-symlink", file_added("small/link", 0o120777), file_added("small/link")),
    Defect("zip-special-file", file_added("small/pipe", 0o010644)),
    Defect("zip-special-file", file_added("small/p", 0o104755), case="set-user-id"),
    Defect("zip-encrypted", bytes_changed(both(DATA, 6, 8, b"\x01"))),
    Defect("zip-method", changed(lambda wheel: wheel.methods.update({DATA: zipfile.ZIP_BZIP2}))),
    Defect("zip-local-header", bytes_changed(lambda d: patch(d, local(d, DATA), b"XX"))),
    Defect(
        "zip-header-differs",
        bytes_changed(lambda d: patch(d, local(d, DATA) + 30, b"S")),
        bytes_changed(streamed),
    ),
    Defect(
        "zip-header-differs",
        bytes_changed(lambda d: patch(d, local(d, DATA) + 22, b"\1")),
        case="size",
    ),
    Defect("zip-crc", bytes_changed(both(DATA, 14, 16, b"\1\2\3\4"))),
    Defect("zip-size", bytes_changed(both(DATA, 22, 24, b"\xff\xff\0\0")), case="less"),
    Defect("zip-size", bytes_changed(both(DATA, 22, 24, b"\1\0\0\0")), case="more"),
    Defect("zip-cut", bytes_changed(cut)),
    Defect("zip-deflate", bytes_changed(spoiled)),
    Defect("zip-bomb", large(bytes(2_000_000)), large(PLAIN)),
    Defect("zip-bomb", large(PLAIN), policy=limited(unpacked_bytes=1_000_000), case="total"),
    Defect(
        "zip-bomb",
        pure,
        changed(lambda wheel: wheel.entries.popitem()),
        policy=limited(members=6),
        case="members",
    ),
    Defect(
        "zip-bomb",
        changed(lambda w: w.entries.update({f"small/{n}.txt": b"" for n in range(40)})),
        policy=limited(text_bytes=2_000),
        case="directory",
    ),
    Defect(
        "zip-bomb",
        changed(lambda w: w.set("METADATA", w.text("METADATA") + "word " * 300_000)),
        case="text",
    ),
]
