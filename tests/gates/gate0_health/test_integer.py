"""Integers, selection, random numbers, scans and atomics, against Python's and NumPy's own."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy
import pytest
from gate0_health.lanes import BITS, EDGES, INTEGERS, Array, apply, different, run

if TYPE_CHECKING:
    import emu_runtime

SEED = 23


def quotient(a: int, b: int) -> int:
    """Toward zero; by zero it is -1."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": quotient,
    "rem": lambda a, b: a - quotient(a, b) * b if b else a,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


@cache
def pairs(type_: str) -> tuple[Array, Array]:
    """Every pair of 8-bit values; of wider ones all pairs of edges, and random ones."""
    info = numpy.iinfo(BITS[type_])
    few = range(info.min, info.max + 1) if info.bits == 8 else EDGES[type_]
    both = numpy.array(list(itertools.product(few, few)), dtype=BITS[type_])
    generator = numpy.random.default_rng(SEED)
    more = generator.integers(info.min, info.max, (2000, 2), dtype=BITS[type_], endpoint=True)
    more[::2, 1] >>= info.bits // 2  # quotients of more than one bit
    a, b = numpy.concatenate([both, more]).T.copy()
    return a, b


@cache
def result(name: str, type_: str) -> Array:
    bits = numpy.iinfo(BITS[type_]).bits
    values = [
        BINARY[name](int(a), int(b)) % (1 << bits) for a, b in zip(*pairs(type_), strict=True)
    ]
    return numpy.array(values, dtype=f"u{bits // 8}").view(BITS[type_])


@pytest.mark.check("gate0.instruction.integer", obligations=["G0", "N2", "R1"], kind="focused test")
def test_integer(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A quotient, a remainder or a wrapped sum is another than that of the numbers."""
    wrong, count = {}, 0
    for type_ in INTEGERS:
        a, b = pairs(type_)
        for name in BINARY:
            got = apply(runtime, f"{name}.{type_}", [(type_, a), (type_, b)], type_)
            count += a.size
            if found := different(got, result(name, type_), a, b):
                wrong[f"{name}.{type_}"] = found
    detail(seed=SEED, results=count, instructions=len(BINARY), types=INTEGERS, mismatching=wrong)
    print(f"{count:,} results of {len(BINARY)} instructions on {len(INTEGERS)} types")
    assert not wrong


# Arguments: the number of lanes, what chooses, two arrays of values, the result.
SELECT = """
.program select
.lanes 4096
.args 40
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
arg.i64 s3, 24
arg.i64 s4, 32
setvl s0, s0
load.i8 v0, s1
const.i8 s5, 0
cmp.ne.i8 p0, v0, s5
load.{type} v1, s2
load.{type} v2, s3
sel.{type} v3, p0, v1, v2
store.{type} v3, s4
exit
"""
LANES_CHOSEN = 4096


@pytest.mark.check(
    "gate0.instruction.selection", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_selection(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A lane gets the value that was not chosen, or another one's, or a NaN loses its bits."""
    generator = numpy.random.default_rng(SEED)
    chosen = generator.integers(0, 2, LANES_CHOSEN, dtype=numpy.int8)
    wrong, count = {}, 0
    for type_, element in BITS.items():
        size = numpy.dtype(element).itemsize
        a, b = (
            numpy.frombuffer(generator.bytes(size * LANES_CHOSEN), f"u{size}") for _ in range(2)
        )
        room = numpy.zeros_like(a)
        text = SELECT.format(type=type_)
        (got,) = run(runtime, text, [chosen, a, b], [room], count=LANES_CHOSEN)
        count += got.size
        if found := different(got, numpy.where(chosen != 0, a, b), chosen, a, b):
            wrong[f"sel.{type_}"] = found
    detail(seed=SEED, results=count, types=list(BITS), mismatching=wrong)
    print(f"{count:,} selections of {len(BITS)} types")
    assert not wrong


# Random123, tests/kat_vectors, philox4x32 with 10 rounds: counter and key, words low first; result.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
# Arguments: the counters' low halves, the results (four words a lane); the key, the high half.
PHILOX = """
.program philox
.lanes 64
.args 32
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
arg.i64 s3, 24
const.i64 s4, 1
setvl s4, s4
load.i64 v0, s0
philox.w0.i32 v1, s2, s3, v0
philox.w1.i32 v2, s2, s3, v0
philox.w2.i32 v3, s2, s3, v0
philox.w3.i32 v4, s2, s3, v0
const.i64 s5, 4
store.i32 v1, s1
add.i64 s1, s1, s5
store.i32 v2, s1
add.i64 s1, s1, s5
store.i32 v3, s1
add.i64 s1, s1, s5
store.i32 v4, s1
exit
"""


def signed(low: int, high: int) -> int:
    whole = high << 32 | low
    return whole - (whole >> 63 << 64)


@pytest.mark.check("gate0.instruction.philox", obligations=["G0", "N7", "R1"], kind="focused test")
def test_philox(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """The random numbers are not those of Philox 4x32-10, and no other machine has them."""
    wrong = []
    for counter, key, words in VECTORS:
        low = numpy.array([signed(*counter[:2])], numpy.int64)
        room = numpy.zeros(4, numpy.uint32)
        (got,) = run(
            runtime, PHILOX, [low], [room], extra=[signed(*key), signed(*counter[2:])], blocks=1
        )
        if got.tolist() != list(words):
            wrong.append([counter, key, [hex(word) for word in got.tolist()]])
    detail(vectors=len(VECTORS), mismatching=wrong)
    print(f"{len(VECTORS)} published vectors of 4 words")
    assert not wrong


SCANS: dict[str, Callable[[Array], Array]] = {
    "sum": numpy.cumsum,
    "prod": numpy.cumprod,
    "min": numpy.minimum.accumulate,
    "max": numpy.maximum.accumulate,
}
IDENTITY = {"sum": 0, "prod": 1, "min": 2**31 - 1, "max": -(2**31)}


@pytest.mark.check("gate0.instruction.scan", obligations=["G0", "R1"], kind="focused test")
def test_scan(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A running sum, product or extreme is not that of the lanes up to it, in their order."""
    generator = numpy.random.default_rng(SEED)
    wrong, count = {}, 0
    for size in (1, 63, 64, 1000, 4096):
        whole = generator.integers(-(2**31), 2**31, size, dtype=numpy.int32)
        real = generator.normal(0, 1, size).astype(numpy.float32)
        for mode, scan in SCANS.items():
            with numpy.errstate(under="ignore"):
                wanted = {"i32": scan(whole).astype(numpy.int32), "f32": scan(real)}
            shifted = numpy.append([IDENTITY[mode]], wanted["i32"][:-1]).astype(numpy.int32)
            for name, type_, values, expected in (
                (f"scan.{mode}.i32", "i32", whole, wanted["i32"]),
                (f"scanx.{mode}.i32", "i32", whole, shifted),
                (f"scan.{mode}.f32", "f32", real, wanted["f32"]),
            ):
                count += size
                if found := different(
                    apply(runtime, name, [(type_, values)], type_), expected, values
                ):
                    wrong[f"{name} of {size}"] = found
    detail(seed=SEED, results=count, mismatching=wrong)
    print(f"{count:,} results of scans of 1 to 4,096 lanes")
    assert not wrong


# Arguments: offsets and values a lane, the table; red on all blocks, any order.
HISTOGRAM = """
.program histogram
.lanes 4096
.args 24
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
block s3, 0
const.i64 s4, 32768
mul.i64 s5, s3, s4
add.i64 s0, s0, s5
add.i64 s1, s1, s5
load.i64 v0, s0
load.i64 v1, s1
red.add.i64 v1, s2, v0
exit
"""
# Arguments: a ticket for each lane that asks, the counter. The blocks ask one after another.
TICKETS = """
.program tickets
.lanes 4096
.args 16
arg.i64 s0, 0
arg.i64 s1, 8
block s3, 0
const.i64 s4, 16384
mul.i64 s5, s3, s4
add.i64 s0, s0, s5
const.i64 v0, 0
const.i32 v1, 1
const.i32 v2, 0
atom.add.i32 v2, s1, v0, v1
store.i32 v2, s0
exit
"""
BLOCKS = 16


@pytest.mark.check("gate0.instruction.atomic", obligations=["G0", "R1"], kind="focused test")
def test_atomic(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """Two lanes or two blocks change one element, and one of the changes is lost."""
    generator = numpy.random.default_rng(SEED)
    lanes = BLOCKS * 4096
    places = generator.integers(0, 100, lanes)  # all of them hit often
    values = generator.integers(-(2**62), 2**62, lanes)
    expected = numpy.zeros(100, numpy.int64)
    numpy.add.at(expected, places, values)
    table = numpy.zeros(100, numpy.int64)
    (got,) = run(runtime, HISTOGRAM, [8 * places, values], [table], blocks=BLOCKS)
    tickets, counter = numpy.zeros(lanes, numpy.int32), numpy.zeros(1, numpy.int32)
    given, last = run(runtime, TICKETS, [], [tickets, counter], blocks=BLOCKS)
    wrong = different(got, expected)
    detail(seed=SEED, additions=lanes, elements=100, tickets=lanes, mismatching=wrong)
    print(f"{lanes:,} additions to 100 elements, {lanes:,} tickets of one counter")
    assert not wrong
    assert last.tolist() == [lanes]
    assert given.tolist() == list(range(lanes)), "tickets in the order of blocks and lanes"
