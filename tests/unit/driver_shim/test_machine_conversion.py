"""cvt and cvtsr against numpy, ml_dtypes and mpmath.

All values of narrow types; of f32 and f64 every value of each narrower float, every half-way point
and one step to each side of both, and edges and random bits. Expected results of a narrow float are
looked up among all of its values as ml_dtypes decodes them, which leaves no rounding to an oracle;
what ml_dtypes rounds itself is compared as well.
"""

from __future__ import annotations

import struct
from functools import cache

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
    LARGEST,
    OPS,
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
MODES = OPS["cvt"]["modes"]
NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")


@cache
def finite(type_: str) -> Array:
    """All finite values that are not negative, ascending, as f64: their places are their bits."""
    out: Array = from_bits(np.arange(LARGEST[type_] + 1), type_).astype(np.float64)
    return out


@cache
def values(type_: str) -> Array:
    """All values of a narrow type; of a wide one edges, random bits, and around narrower values."""
    dtype = DTYPES[type_]
    if dtype.itemsize <= 2:
        return from_bits(np.arange(1 << (8 * dtype.itemsize)), type_)
    parts = [edges(type_), random_values(type_, 20_000, 21)]
    if type_ in FLOATS:
        for narrow in NARROW:
            exact = finite(narrow)
            middle = np.append(
                (exact[1:] + exact[:-1]) / 2, exact[-1] + (exact[-1] - exact[-2]) / 2
            )
            around = np.concatenate([exact, middle]).astype(dtype)
            steps = [
                around,
                np.nextafter(around, dtype.type(0)),
                np.nextafter(around, dtype.type(np.inf)),
            ]
            parts += [s for step in steps for s in (step, -step)]
        if type_ == "f64":
            near = random_values("f32", 30_000, 22).astype(dtype)
            middle = near * (1 + 2.0 ** -(FORMATS["f32"][1] + 1))
            parts += [near, middle, np.nextafter(middle, 0.0), -middle]
        powers = dtype.type(2.0) ** np.arange(-150, 128).astype(dtype)
        limits = [float(np.iinfo(DTYPES[i]).max) for i in INTEGERS]
        around = np.array([*limits, *(-v for v in limits)]).astype(dtype)
        halves = [around, np.nextafter(around, dtype.type(0)), around + 1, around - 1, around + 0.5]
        parts += [powers, -powers, *(s.astype(dtype) for s in halves)]
        parts += [np.arange(-1000, 1000, 0.5, dtype=dtype)]
    else:
        info = np.iinfo(dtype)
        shifts = [1 << k for k in range(info.bits - 1)]
        near_powers = [v + d for v in shifts for d in (-1, 0, 1) if v + d <= info.max]
        # ties of each float format, and one beside them
        ties = [
            (1 << k) + (1 << (k - m)) + d
            for m in (3, 4, 8, 11, 24, 53)
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


def saturate(out: Array, source: Array, to: str) -> Array:
    """The largest finite value for what is beyond it, infinity too."""
    sign = 1 << (8 * out.itemsize - 1)
    beyond = ((bits(out) & (sign - 1)) > LARGEST[to]) & ~np.isnan(source)
    most = np.where(source < 0, LARGEST[to] | sign, LARGEST[to]).astype(bits(out).dtype)
    return from_bits(np.where(beyond, most, bits(out)), to)


def places(a: Array, to: str) -> tuple[Array, Array]:
    """Of each |a|: the place in `finite(to)` at or below it, and the rest as a part of the step."""
    table = finite(to)
    magnitude = np.abs(a.astype(np.float64))
    place = np.searchsorted(table, magnitude, side="right") - 1
    place[np.isnan(magnitude)] = 0
    step = np.append(np.diff(table), table[-1] - table[-2])[place]
    return place, (magnitude - table[place]) / step


def encode(place: Array, a: Array, to: str) -> Array:
    """The values at these places, with the signs of a; beyond the last: infinity or NaN."""
    over = LARGEST[to] + 1
    code = np.where(np.isnan(a), CANONICAL_NAN[to], np.minimum(place, over))
    sign = 1 << (8 * DTYPES[to].itemsize - 1)
    return from_bits(np.where(np.signbit(a) & ~np.isnan(a), code | sign, code), to)


def to_narrow(a: Array, to: str, mode: str) -> Array:
    place, rest = places(a, to)
    if mode.startswith("even"):
        place = place + ((rest > 0.5) | ((rest == 0.5) & (place % 2 == 1)))
    place = np.where(np.isinf(a), LARGEST[to] + 1, place)
    return encode(place, a, to)


def float_to_integer(a: Array, to: str, mode: str) -> Array:
    info = np.iinfo(DTYPES[to])
    exact = a.astype(np.float64)
    whole = np.rint(exact) if mode == "even_sat" else np.trunc(exact)
    below, above = whole <= float(info.min), whole >= float(info.max) + (to == "i64")
    inside = np.where(below | above | np.isnan(whole), 0, whole).astype(np.int64)
    return np.where(above, info.max, np.where(below, info.min, inside)).astype(DTYPES[to])


def integer_to_float(a: Array, to: str, mode: str) -> Array:
    exponent, mantissa = FORMATS[to]
    rounding = "n" if mode.startswith("even") else "d"  # as mpmath names them
    largest = (2 - mpmath.mpf(2) ** -mantissa) * mpmath.mpf(2) ** (2 ** (exponent - 1) - 1)

    def one(x: int) -> float:
        exact = mpmath.mpf(x, prec=mantissa + 1, rounding=rounding)
        if abs(exact) <= largest:
            return float(exact)
        limit = np.inf if rounding == "n" else float(largest)
        return limit if x > 0 else -limit

    return np.array([one(int(x)) for x in a], dtype=np.float64).astype(DTYPES[to])


def float_to_wide(a: Array, to: str, mode: str) -> Array:
    nearest = a.astype(DTYPES[to])
    return nearest if mode.startswith("even") else toward_zero(nearest, a)


def expected(a: Array, source: str, to: str, mode: str) -> Array:
    if to in INTEGERS:
        if source in FLOATS:
            return float_to_integer(a, to, mode)
        info = np.iinfo(DTYPES[to])
        wide = a.astype(np.int64)
        return (wide.clip(info.min, info.max) if mode.endswith("_sat") else wide).astype(DTYPES[to])
    if to in ("f8e4m3", "f8e5m2"):  # integers that f64 rounds are all beyond these
        out = to_narrow(a.astype(np.float64), to, mode)
    elif source in INTEGERS:
        out = integer_to_float(a, to, mode)
    elif to in NARROW:
        out = to_narrow(a, to, mode)
    else:
        out = float_to_wide(a, to, mode)
    return saturate(out, a.astype(np.float64), to) if mode.endswith("_sat") else out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("to", "source"), PAIRS)
def test_conversion(machine: Machine, to: str, source: str, mode: str) -> None:
    a = values(source)
    if source in INTEGERS and a.size > 10_000:
        a = np.concatenate([a[:3000], a[-7000:]])
    got = apply(machine, f"cvt.{mode}.{to}.{source}", [(source, a)], to)
    assert_same(got, expected(a, source, to, mode), a)
    print(f"cvt.{mode}.{to}.{source}: {a.size:,} of {a.size:,} values")


@pytest.mark.parametrize("source", ["f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("to", NARROW)
def test_even_is_what_ml_dtypes_rounds(machine: Machine, to: str, source: str) -> None:
    a = values(source)
    got = apply(machine, f"cvt.even.{to}.{source}", [(source, a)], to)
    assert_same(got, a.astype(np.float32).astype(DTYPES[to]), a)
    print(f"cvt.even.{to}.{source}: {a.size:,} values against ml_dtypes")


@pytest.mark.parametrize("to", NARROW)
def test_every_encoding_is_reached(machine: Machine, to: str) -> None:
    """From f32 and back: each of the 256 or 65,536 encodings, but for the payloads of NaN."""
    a = values("f32")
    got = apply(machine, f"cvt.even.{to}.f32", [("f32", a)], to)
    every = from_bits(np.arange(1 << (8 * DTYPES[to].itemsize)), to)
    numbers = set(bits(every[~np.isnan(every)]).tolist())
    assert numbers <= set(bits(got).tolist())
    wide = apply(machine, f"cvt.f32.{to}", [(to, every)], "f32")
    assert_same(wide, every.astype(np.float32), every)
    print(f"{to}: {len(numbers):,} numbers reached, {every.size:,} encodings read")


def test_values_hold_what_is_hard() -> None:
    """The inputs reach NaN, infinity, subnormals and ties, or the tests above would say little."""
    a = values("f32")
    assert np.isnan(a).any() and np.isinf(a).any()
    assert ((np.abs(a) > 0) & (np.abs(a) < np.finfo(np.float32).tiny)).any()
    for to in NARROW:
        assert (places(a, to)[1] == 0.5).sum() > 2 * LARGEST[to]
    assert set(CANONICAL_NAN) == set(FLOATS) == set(FORMATS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("to", "source"),
    [("f64", "f32"), ("f32", "f64"), ("i64", "u8"), ("u8", "i64"), ("f8e4m3", "i64")],
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
    got = apply(machine, f"cvt.{mode}.{to}.{source}", [(source, a)], to)
    assert bits(memory.read(out, a.size, DTYPES[to])).tobytes() == bits(got).tobytes()


def stochastic(a: Array, to: str, random: Array) -> Array:
    """The rule of isa.toml, exact: f64 holds all of the differences and quotients."""
    if to == "f32":
        below = np.nan_to_num(np.abs(toward_zero(a.astype(np.float32), a)), nan=0.0)
        exact = below.astype(np.float64)
        up = from_bits(bits(below) + 1, "f32").astype(np.float64)
        up[np.isinf(up)] = 2.0**128
        place, rest = bits(below).astype(np.int64), (np.abs(a) - exact) / (up - exact)
    else:
        place, rest = places(a, to)
    rest = np.where(np.isfinite(a), rest, 0)
    part = np.floor(np.minimum(rest, 1) * 2.0**32).astype(np.int64)
    place = place + (part + random.astype(np.int64) >= 1 << 32)
    return encode(np.where(np.isinf(a), LARGEST[to] + 1, place), a, to)


@pytest.mark.parametrize("mode", OPS["cvtsr"]["modes"])
@pytest.mark.parametrize("source", OPS["cvtsr"]["types2"])
@pytest.mark.parametrize("to", OPS["cvtsr"]["types"])
def test_stochastic(machine: Machine, to: str, source: str, mode: str) -> None:
    a = values(source)
    generator = np.random.default_rng(71)
    draws = [np.zeros(a.size, np.uint32), np.full(a.size, 0xFFFFFFFF, np.uint32)]
    # just enough, or one short of it, to round away from zero
    if to != "f32":
        part = np.floor(np.minimum(places(a, to)[1], 1) * 2.0**32)
        need = (2.0**32 - np.nan_to_num(part)).clip(0, 2.0**32 - 1).astype(np.uint32)
        draws += [need, need - 1]
    draws.append(generator.integers(0, 1 << 32, a.size, dtype=np.uint32))
    for random in draws:
        inputs = [(source, a), ("i32", random.view(np.int32))]
        got = apply(machine, f"cvtsr.{mode}.{to}.{source}", inputs, to)
        wanted = stochastic(a.astype(np.float64), to, random)
        if mode == "sat":
            wanted = saturate(wanted, a.astype(np.float64), to)
        assert_same(got, wanted, a, random)
    print(f"cvtsr.{mode}.{to}.{source}: {len(draws)} draws of {a.size:,} values")


def test_stochastic_rounding_has_no_bias(machine: Machine) -> None:
    """A quarter of the way between two neighbours goes up for exactly a quarter of all draws."""
    draws = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.int32)
    a = np.full(draws.size, 1.0 + 2.0**-10 / 4, np.float32)
    got = apply(machine, "cvtsr.f16.f32", [("f32", a), ("i32", draws)], "f16")
    up = np.float16(1 + 2**-10)
    assert int((got == up).sum()) == draws.size // 4
    assert int((got == np.float16(1)).sum()) == draws.size // 4 * 3
