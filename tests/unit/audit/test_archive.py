"""What the directory, the headers and the bytes say is told apart, and sizes are not believed."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib

import pytest
from broken_wheels.good import entry, local, patch

from qualify.audit import archive
from qualify.audit.archive import Archive, Content, Flaw, Limits

LIMITS = Limits(members=10, unpacked_bytes=10**9, ratio=200, ratio_above=10**6, text_bytes=10**6)
DATA = b"data " * 1000


def zipped(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as new:
        for name, data in (members or {"a": DATA}).items():
            new.writestr(name, data)
    return file.getvalue()


def read(data: bytes, limits: Limits = LIMITS) -> Archive:
    return archive.read(io.BytesIO(data), limits)


def unpacked(data: bytes, algorithm: str = "sha256") -> tuple[bytes, Content | Flaw]:
    (member,) = read(data).members
    assert member.header is not None
    sink = io.BytesIO()
    done = archive.unpack(io.BytesIO(data), member, member.header, sink, algorithm)
    return sink.getvalue(), done


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("data", [b"", b"a", DATA, bytes(archive.CHUNK + 1), bytes(10**6)])
def test_what_is_written_is_read(method: int, data: bytes) -> None:
    out, content = unpacked(zipped(method, a=data))
    assert out == data
    assert isinstance(content, Content)
    assert (content.digest, content.crc) == (hashlib.sha256(data).hexdigest(), zlib.crc32(data))


def test_another_algorithm() -> None:
    _, content = unpacked(zipped(), "sha512")
    assert isinstance(content, Content) and content.digest == hashlib.sha512(DATA).hexdigest()


def test_an_archive_without_members() -> None:
    file = io.BytesIO()
    zipfile.ZipFile(file, "w").close()
    facts = read(file.getvalue())
    assert facts.members == facts.flaws == ()


def test_bytes_before_and_after_are_counted() -> None:
    facts = read(b"before" + zipped() + b"after!!")
    assert (facts.shift, facts.trailing, facts.flaws) == (6, 7, ())
    assert facts.members[0].header is not None


def test_a_member_that_unpacks_to_more_is_left_after_a_chunk() -> None:
    data = zipped(a=bytes(10**7))
    data = patch(data, entry(data, "a") + 24, struct.pack("<L", 5))
    out, content = unpacked(data)
    assert isinstance(content, Content)
    assert 5 < content.size == len(out) <= 5 + archive.CHUNK


def test_too_many_members_are_not_read() -> None:
    facts = read(zipped(**{str(n): b"" for n in range(11)}))
    assert len(facts.members) == 10
    assert [flaw.id for flaw in facts.flaws] == ["zip-bomb"]


def test_the_header_is_what_it_says_itself() -> None:
    data = zipped()
    data = patch(data, local(data, "a") + 30, b"b")
    (member,) = read(data).members
    assert member.header is not None
    assert (member.raw, member.header.name) == (b"a", b"b")


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06", bytes(21), bytes(22), bytes(70_000)])
def test_no_archive_is_a_flaw(data: bytes) -> None:
    facts = read(data)
    assert facts.members == ()
    assert [flaw.id for flaw in facts.flaws] == ["zip-unreadable"]


def test_what_may_not_be_unpacked_is_refused() -> None:
    data = zipped(zipfile.ZIP_BZIP2)
    with pytest.raises(ValueError, match="judged before"):
        unpacked(data)
