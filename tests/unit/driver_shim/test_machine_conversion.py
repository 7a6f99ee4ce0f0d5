"""cvt against numpy, ml_dtypes and mpmath: all 16-bit floats, edges and random bits of the rest."""

from __future__ import annotations

import struct

import mpmath
import numpy as np
import pytest
from machine import Machine, Memory
from programs import (
    CANONICAL_NAN,
    DTYPES,
    FLOATS,
    FORMATS,
    INTEGERS,
    Array,
    apply,
    assert_same,
    bits,
    edges,
    from_bits,
    random_values,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

PAIRS = [(to, source) for to in DTYPES for source in DTYPES]


def values(type_: str) -> Array:
    """All values of a narrow type; of a wide one edges, random bits, and ties of narrower ones."""
    dtype = DTYPES[type_]
    if dtype.itemsize <= 2:
        return from_bits(np.arange(1 << (8 * dtype.itemsize)), type_)
    parts = [edges(type_), random_values(type_, 20_000, 21)]
    if type_ in FLOATS:
        for narrow in ("f16", "bf16", "f32"):
            count = 30_000
            near = random_values(narrow, count, 22).astype(dtype)
            # half-way between two values of the narrow type, exactly and one step to each side
            middle = near * dtype.type(1 + 2.0 ** -(FORMATS[narrow][1] + 1))
            parts += [near, middle, np.nextafter(middle, dtype.type(0)), -middle]
        powers = dtype.type(2.0) ** np.arange(-150, 128).astype(dtype)
        limits = [float(np.iinfo(DTYPES[i]).max) for i in INTEGERS]
        around = np.array([*limits, *(-v for v in limits)]).astype(dtype)
        steps = [around, np.nextafter(around, dtype.type(0)), around + 1, around - 1, around + 0.5]
        parts += [powers, -powers, *(s.astype(dtype) for s in steps)]
    else:
        info = np.iinfo(dtype)
        shifts = [1 << k for k in range(info.bits - 1)]
        near_powers = [v + d for v in shifts for d in (-1, 0, 1) if v + d <= info.max]
        # ties of each float format, and one beside them
        ties = [
            (1 << k) + (1 << (k - m)) + d
            for m in (8, 11, 24, 53)
            for k in range(m, info.bits - 1)
            for d in (-1, 0, 1)
        ]
        extra = [v for v in near_powers + ties if v <= info.max]
        parts.append(np.array([*extra, *(-v for v in extra)], dtype=dtype))
    return np.concatenate(parts)


def toward_zero(rounded: Array, source: Array) -> Array:
    """From rounded to nearest: one step back where that went away from zero."""
    magnitude = np.abs(rounded.astype(np.float64))
    beyond = (magnitude > np.abs(source.astype(np.float64))) & ~np.isnan(rounded)
    raw = bits(rounded)
    back: Array = (raw - beyond.astype(raw.dtype)).view(rounded.dtype)
    return back


def float_to_integer(a: Array, to: str) -> Array:
    info = np.iinfo(DTYPES[to])

    def one(x: float) -> int:
        if x != x:
            return 0
        if x in (np.inf, -np.inf):
            return int(info.max if x > 0 else info.min)
        return max(int(info.min), min(int(info.max), int(x)))

    return np.array([one(float(x)) for x in a], dtype=DTYPES[to])


def integer_to_float(a: Array, to: str, rounding: str) -> Array:
    exponent, mantissa = FORMATS[to]
    largest = (2 - mpmath.mpf(2) ** -mantissa) * mpmath.mpf(2) ** (2 ** (exponent - 1) - 1)

    def one(x: int) -> float:
        exact = mpmath.mpf(x, prec=mantissa + 1, rounding=rounding)
        if abs(exact) <= largest:
            return float(exact)
        limit = np.inf if rounding == "n" else float(largest)
        return limit if x > 0 else -limit

    return np.array([one(int(x)) for x in a], dtype=np.float64).astype(DTYPES[to])


def float_to_float(a: Array, to: str, rounding: str) -> Array:
    twice = to == "bf16" and a.dtype == np.float64  # ml_dtypes goes through f32
    nearest = f64_to_bf16(a) if twice else a.astype(DTYPES[to])
    return nearest if rounding == "n" else toward_zero(nearest, a)


def f64_to_bf16(a: Array) -> Array:
    first = a.astype(np.float32)
    error = a - first.astype(np.float64)
    raw = first.view(np.uint32).copy()
    inexact = (error != 0) & np.isfinite(first)
    away = (error > 0) == (a > 0)
    # f32 with a sticky last bit: never a tie that is none
    cut = np.where(inexact & ~away, raw - 1, raw)
    raw = np.where(inexact, cut | 1, raw).astype(np.uint32)
    narrow: Array = raw.view(np.float32).astype(DTYPES["bf16"])
    return narrow


@pytest.mark.parametrize("mode", ["even", "trunc"])
@pytest.mark.parametrize(("to", "source"), PAIRS)
def test_conversion(machine: Machine, to: str, source: str, mode: str) -> None:
    a = values(source)
    if source in INTEGERS and a.size > 10_000:
        a = np.concatenate([a[:3000], a[-7000:]])
    rounding = {"even": "n", "trunc": "d"}[mode]  # as mpmath names them
    if source in FLOATS and to in FLOATS:
        expected = float_to_float(a, to, rounding)
    elif source in FLOATS:
        expected = float_to_integer(a, to)
    elif to in FLOATS:
        expected = integer_to_float(a, to, rounding)
    else:
        expected = a.astype(np.int64).astype(DTYPES[to])
    got = apply(machine, f"cvt.{mode}.{to}.{source}", [(source, a)], to)
    assert_same(got, expected, a)


def test_values_hold_what_is_hard() -> None:
    """The inputs reach NaN, infinity, subnormals and ties, or the test above would say little."""
    a = values("f32")
    assert np.isnan(a).any() and np.isinf(a).any()
    assert ((np.abs(a) > 0) & (np.abs(a) < np.finfo(np.float32).tiny)).any()
    ties = bits(a) & 0xFFFF == 0x8000
    assert ties.sum() > 1000
    assert len(CANONICAL_NAN) == len(FLOATS)


@pytest.mark.parametrize("mode", ["even", "trunc"])
@pytest.mark.parametrize(
    ("to", "source"), [("f64", "f32"), ("f32", "f64"), ("i64", "u8"), ("u8", "i64")]
)
def test_in_place(machine: Machine, to: str, source: str, mode: str) -> None:
    """Destination and source are one register, of two element sizes."""
    a = random_values(source, 4000, 31)
    twice = f"mov.{source} v3, v1\ncvt.{mode}.{to}.{source} v3, v3\nmov.{to}"
    memory = Memory()
    at, out = memory.place(a), memory.place(np.zeros(a.size, DTYPES[to]))
    lines = [".lanes 4096", ".args 24", "arg.i64 s0, 0", "setvl s0, s0", "arg.i64 s1, 8"]
    lines += [
        f"load.{source} v1, s1",
        f"{twice} v0, v3",
        "arg.i64 s1, 16",
        f"store.{to} v0, s1",
        "exit",
    ]
    _, fault = machine.run(
        machine.assemble("\n".join(lines)), memory, struct.pack("<qqq", a.size, at, out)
    )
    assert fault is None
    expected = apply(machine, f"cvt.{mode}.{to}.{source}", [(source, a)], to)
    assert bits(memory.read(out, a.size, DTYPES[to])).tobytes() == bits(expected).tobytes()
