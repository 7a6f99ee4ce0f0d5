"""Compressed data is read as zlib reads it, which installers do: same bytes, same refusals."""

from __future__ import annotations

import io
import random
import zlib

from qualify.audit.archive import CHUNK, DEFLATED, Content, Flaw, Header, Member, unpack

STREAMS = 3000
SEED = 4


def of(data: bytes, size: int) -> tuple[Member, Header]:
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


def read(data: bytes, size: int) -> bytes | str:
    sink = io.BytesIO()
    done = unpack(io.BytesIO(data), *of(data, size), sink)
    if isinstance(done, Flaw):
        return done.id
    assert isinstance(done, Content) and done.crc == zlib.crc32(sink.getvalue())
    return sink.getvalue()


def expected(data: bytes, size: int) -> bytes | str:
    inflate = zlib.decompressobj(-15)
    try:
        out = inflate.decompress(data, CHUNK)
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
        wanted = expected(bytes(data), len(text))
        assert read(bytes(data), len(text)) == wanted, (number, data[:60].hex())
        outcomes.add(wanted if isinstance(wanted, str) else "")
    assert outcomes == {"", "zip-deflate", "zip-cut"}
