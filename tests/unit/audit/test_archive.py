"""What the directory, the headers and the bytes say is told apart, and sizes are not believed."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zipfile
import zlib

import pytest
from broken_wheels.good import entry, local, patch

from qualify.audit import archive
from qualify.audit.archive import DEFLATED, Archive, Content, Flaw, Header, Limits, Member

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


STREAMS = 3000
SEED = 4


def _of(data: bytes, size: int) -> tuple[Member, Header]:
    header = Header(b"a", 0, DEFLATED, 0, len(data), size, 0)
    member = Member(
        name="a",
        raw=b"a",
        flags=0,
        method=DEFLATED,
        crc=0,
        packed=len(data),
        size=size,
        mode=0,
        offset=0,
        entry=0,
        header=header,
    )
    return member, header


def inflated(data: bytes, size: int) -> bytes | str:
    sink = io.BytesIO()
    done = archive.unpack(io.BytesIO(data), *_of(data, size), sink)
    if isinstance(done, Flaw):
        return done.id
    assert isinstance(done, Content) and done.crc == zlib.crc32(sink.getvalue())
    return sink.getvalue()


def as_zlib(data: bytes, size: int) -> bytes | str:
    inflate = zlib.decompressobj(-15)
    try:
        out = inflate.decompress(data, archive.CHUNK)
    except zlib.error:
        return "zip-deflate"
    return out if inflate.eof or len(out) > size else "zip-cut"


def test_damaged_streams_are_read_as_zlib_reads_them() -> None:
    """Bits are flipped in headers of blocks, where decoders differ, and anywhere."""
    chance = random.Random(SEED)
    texts = [chance.randbytes(2000), bytes(4000), b"".join(b"%d," % n for n in range(1500))]
    outcomes = set()
    for number in range(STREAMS):
        text = texts[number % len(texts)]
        strategy = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED)[number // 3 % 3]
        packer = zlib.compressobj(chance.choice((1, 6, 9)), zlib.DEFLATED, -15, 8, strategy)
        data = bytearray(packer.compress(text) + packer.flush())
        for _ in range(chance.randint(0, 2)):
            near = min(len(data), chance.choice((4, 60, 9999)))
            data[chance.randrange(near)] ^= 1 << (number % 8)
        wanted = as_zlib(bytes(data), len(text))
        assert inflated(bytes(data), len(text)) == wanted, (number, data[:60].hex())
        outcomes.add(wanted if isinstance(wanted, str) else "")
    assert outcomes == {"", "zip-deflate", "zip-cut"}
