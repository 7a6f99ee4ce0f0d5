"""exp, sin, erf and their like against mpmath, within the bounds that isa.toml states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from machine import Machine
from programs import CANONICAL_NAN, DTYPES, FORMATS, OPS, Array, apply, bits, edges, from_bits

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

UNARY = [
    (op, t)
    for op, entry in OPS.items()
    if "ulp" in entry and len(entry["operands"]) == 2
    for t in entry["ulp"]
]
RANGES = {  # where the result is neither 0 nor infinite, and a little beyond
    ("exp", "f32"): (-110.0, 95.0),
    ("exp", "f64"): (-760.0, 720.0),
    ("expm1", "f32"): (-20.0, 95.0),
    ("expm1", "f64"): (-45.0, 720.0),
    ("exp2", "f32"): (-152.0, 130.0),
    ("exp2", "f64"): (-1080.0, 1030.0),
    ("tanh", "f32"): (-12.0, 12.0),
    ("tanh", "f64"): (-25.0, 25.0),
    ("erf", "f32"): (-4.5, 4.5),
    ("erf", "f64"): (-6.5, 6.5),
    ("sin", "f32"): (-100.0, 100.0),
    ("sin", "f64"): (-100.0, 100.0),
    ("cos", "f32"): (-100.0, 100.0),
    ("cos", "f64"): (-100.0, 100.0),
    ("log1p", "f32"): (-1.0, 10.0),
    ("log1p", "f64"): (-1.0, 10.0),
}
EXACT: dict[str, Callable[[Any], Any]] = {
    **{
        n: getattr(mpmath, n) for n in ("exp", "log", "expm1", "log1p", "tanh", "erf", "sin", "cos")
    },
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
AT_INFINITY = {  # at +inf and -inf
    "exp": (np.inf, 0.0),
    "exp2": (np.inf, 0.0),
    "expm1": (np.inf, -1.0),
    "tanh": (1.0, -1.0),
    "erf": (1.0, -1.0),
    "log": (np.inf, np.nan),
    "log2": (np.inf, np.nan),
    "log1p": (np.inf, np.nan),
    "rsqrt": (0.0, np.nan),
    "sin": (np.nan, np.nan),
    "cos": (np.nan, np.nan),
}
POLES = {"log": 0.0, "log2": 0.0, "log1p": -1.0, "rsqrt": 0.0}  # NaN below


def near_multiples_of_half_pi(type_: str) -> Array:
    """Values as close to n pi / 2 as the type has them: convergents, for each exponent."""
    exponent, mantissa = FORMATS[type_]
    found = []
    with mpmath.workprec(2500):
        for e in range(-mantissa + 1, 2 ** (exponent - 1) - mantissa):
            # whole * 2^e close to n pi / 2: whole / n is a convergent of pi / 2^(e + 1)
            target = mpmath.pi / mpmath.mpf(2) ** (e + 1)
            h, k, h1, k1, x = 1, 0, 0, 1, target
            while True:
                a = int(mpmath.floor(x))
                h, h1, k, k1 = a * h + h1, h, a * k + k1, k
                if h >= 1 << (mantissa + 1):
                    break
                if h >= 1 << mantissa:
                    found.append(float(mpmath.mpf(h) * mpmath.mpf(2) ** e))
                x = 1 / (x - a)
    return np.array(found, dtype=DTYPES[type_])


def inputs(op: str, type_: str) -> Array:
    """Dense where the function varies, all magnitudes, and beside the joints of the reductions."""
    dtype = DTYPES[type_]
    generator = np.random.default_rng(41)
    low, high = RANGES.get((op, type_), (0.0, 10.0))
    exponent, mantissa = FORMATS[type_]
    every = generator.integers(0, 1 << 63, 2500).astype(np.uint64) >> np.uint64(
        63 - exponent - mantissa
    )
    magnitudes = every.astype({4: np.uint32, 8: np.uint64}[dtype.itemsize]).view(dtype)
    scale = np.pi / 2 if op in ("sin", "cos") else 1 / 8 if op == "erf" else np.log(2)
    joints = scale * (np.arange(-60, 60) / 2)
    near_one = 1 + generator.normal(0, 1e-3, 500)
    tiny = generator.normal(0, 1, 500) * 10.0 ** -generator.uniform(0, 20, 500)
    parts = [generator.uniform(low, high, 4000), generator.normal(0, 1, 1000), joints, near_one]
    parts += [tiny, joints + generator.normal(0, 1e-9, joints.size), np.arange(-70.0, 70.0)]
    out = np.concatenate([*(p.astype(dtype) for p in parts), magnitudes, -magnitudes, edges(type_)])
    if op in ("sin", "cos"):
        hard = near_multiples_of_half_pi(type_)
        assert hard.size > 50
        out = np.concatenate([out, hard, -hard])
    pole = POLES.get(op)
    return out if pole is None else np.where(out <= pole, 2 * dtype.type(pole) - out, out)


def unit(exact: Any, type_: str) -> Any:
    """The unit in the last place at `exact`."""
    exponent, mantissa = FORMATS[type_]
    least = 2 - 2 ** (exponent - 1) - mantissa
    return mpmath.mpf(2) ** max(int(mpmath.floor(mpmath.log(abs(exact), 2))) - mantissa, least)


def error(y: float, exact: Any, type_: str) -> float:
    """In units in the last place; infinity counts as the first value that is too large."""
    overflow = mpmath.mpf(2) ** (2 ** (FORMATS[type_][0] - 1))
    if abs(y) == np.inf and abs(exact) > overflow:
        return 0.0
    value = mpmath.sign(y) * overflow if abs(y) == np.inf else mpmath.mpf(y)
    return float(abs(value - exact) / unit(exact, type_))


def units_off(got: Array, a: Array, op: str, type_: str) -> tuple[float, float]:
    """The largest error in units in the last place, and its input. Special values must be exact."""
    worst, where = 0.0, 0.0
    with mpmath.workprec(1300):
        for x, y in zip(a.tolist(), got.tolist(), strict=True):
            if x != x or abs(x) == np.inf:
                wanted = np.nan if x != x else AT_INFINITY[op][x < 0]
                assert y == wanted or (y != y and wanted != wanted), (x, y, wanted)
                continue
            if x == POLES.get(op):
                assert abs(y) == np.inf
                continue
            exact = limited(op, x)
            if exact == 0 or abs(exact) == mpmath.inf:
                assert y == exact, (x, y, exact)
                continue
            off = error(y, exact, type_)
            if off > worst:
                worst, where = off, x
    return worst, where


def limited(op: str, x: float) -> Any:
    """Exact, but for results so far out of range that mpmath would count forever."""
    if op in ("exp", "expm1", "exp2") and x > 1e5:
        return mpmath.inf
    if op in ("exp", "expm1", "exp2") and x < -1e5:
        return mpmath.mpf(-1 if op == "expm1" else 0) + (op == "expm1") * mpmath.mpf(2) ** -1200
    if op in ("tanh", "erf") and abs(x) > 60:
        return mpmath.sign(x) * (1 - mpmath.mpf(2) ** -1200)
    precision = 1300 if op in ("sin", "cos") else 200
    with mpmath.workprec(precision):
        return EXACT[op](mpmath.mpf(x))


@pytest.mark.parametrize(("op", "type_"), UNARY)
def test_error_is_within_the_promise(machine: Machine, op: str, type_: str) -> None:
    a = inputs(op, type_)
    got = apply(machine, f"{op}.{type_}", [(type_, a)], type_)
    worst, where = units_off(got, a, op, type_)
    bound = OPS[op]["ulp"][type_]
    assert worst <= bound, f"{worst:.3f} units off at {where!r}"
    print(f"{op}.{type_}: {worst:.4f} of {bound} ulp at {where!r}, {a.size:,} values")


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("op", [*POLES, "sin", "cos"])
def test_outside_the_domain_is_nan(machine: Machine, op: str, type_: str) -> None:
    pole = POLES.get(op, -np.inf)
    below = [-np.inf] if op in ("sin", "cos") else [-1.5, -2, -1e30, -np.inf]
    a = np.array([*below, np.nan, *([np.inf] if op in ("sin", "cos") else [])], DTYPES[type_])
    got = apply(machine, f"{op}.{type_}", [(type_, a)], type_)
    assert (bits(got) == CANONICAL_NAN[type_]).all()
    if op in POLES:
        at = np.array([pole, -0.0 if pole == 0 else pole], DTYPES[type_])
        ends = apply(machine, f"{op}.{type_}", [(type_, at)], type_)
        wanted = [np.inf, -np.inf] if op == "rsqrt" else [-np.inf, -np.inf]
        assert ends.tolist() == wanted


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("op", ["tanh", "expm1", "log1p", "sin"])
def test_zero_and_tiny_values_are_kept(machine: Machine, op: str, type_: str) -> None:
    tiny = np.finfo(DTYPES[type_]).smallest_subnormal
    a = np.array([0.0, -0.0, tiny, -tiny], dtype=DTYPES[type_])
    assert bits(apply(machine, f"{op}.{type_}", [(type_, a)], type_)).tobytes() == bits(a).tobytes()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_whole_powers_of_two_are_exact(machine: Machine, type_: str) -> None:
    exponent, mantissa = FORMATS[type_]
    n = np.arange(2 - 2 ** (exponent - 1) - mantissa, 2 ** (exponent - 1)).astype(DTYPES[type_])
    powers = np.ldexp(DTYPES[type_].type(1), n.astype(np.int32))
    assert (apply(machine, f"exp2.{type_}", [(type_, n)], type_) == powers).all()
    assert (apply(machine, f"log2.{type_}", [(type_, powers)], type_) == n).all()


def test_rsqrt_of_f32_is_correctly_rounded(machine: Machine) -> None:
    """All significands, even and odd exponents: r is right if a (r -+ ulp / 2)^2 surround 1."""
    step = 1 << 21
    for start in range(0, 1 << 24, step):  # exponents 0 and 1: 1 <= a < 4
        raw = np.arange(start, start + step, dtype=np.uint32) + np.uint32(0x3F800000)
        a = raw.view(np.float32)
        got = apply(machine, "rsqrt.f32", [("f32", a)], "f32")
        r = np.ldexp(got.astype(np.float64), 25).astype(
            np.int64
        )  # 2^24 .. 2^25, in halves of its unit
        whole = np.ldexp(a.astype(np.float64), 23).astype(np.int64)  # 2^23 .. 2^25
        assert (square_times(whole, r - 1) <= 0).all() and (square_times(whole, r + 1) >= 0).all()
    print(f"rsqrt.f32: all {1 << 24:,} values from 1 to 4 are correctly rounded")


def square_times(whole: Array, x: Array) -> Array:
    """Sign of whole * x^2 - 2^73 for whole < 2^25 and x < 2^26, in two words."""
    square = x * x
    high, low = square >> 27, square & ((1 << 27) - 1)
    top = whole * high + ((whole * low) >> 27)  # units of 2^27
    rest = (whole * low) & ((1 << 27) - 1)
    difference = top - (1 << 46)
    sign: Array = np.where(difference != 0, np.sign(difference), np.sign(rest))
    return sign


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1e30,
    -1e30,
    2.0**24 + 2,
]


@pytest.mark.parametrize("type_", OPS["pow"]["types"])
def test_pow(machine: Machine, type_: str) -> None:
    """Bases and exponents of all sizes, near 1 with great exponents, negative with whole ones."""
    generator, wide = np.random.default_rng(43), type_ == "f64"
    least, most, sharp = (-1074, 1024, 1e-10) if wide else (-149, 128, 1e-6)
    x = [generator.uniform(0, 10, 3000), 2.0 ** generator.uniform(least, most, 2000)]
    y = [generator.normal(0, most / 6, 3000), generator.normal(0, 2, 2000)]
    near, far = 1 + generator.normal(0, sharp, 1000), generator.normal(0, 10 / sharp, 1000)
    whole = generator.integers(-30, 30, 1000)
    a = np.concatenate([*x, near, -x[0][:1000], edges(type_)]).astype(DTYPES[type_])
    b = np.concatenate([*y, far, whole, np.full(edges(type_).size, 0.75)]).astype(DTYPES[type_])
    some = (a != 0) & np.isfinite(a) & ~((a < 0) & (b % 1 != 0))
    a, b = a[some], b[some]
    got = apply(machine, f"pow.{type_}", [(type_, a), (type_, b)], type_)
    worst, where = 0.0, (0.0, 0.0)
    with mpmath.workprec(200):
        for p, q, r in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
            off = error(r, mpmath.mpf(p) ** (int(q) if p < 0 else mpmath.mpf(q)), type_)
            if off > worst:
                worst, where = off, (p, q)
    bound = OPS["pow"]["ulp"][type_]
    assert worst <= bound, (worst, where)
    print(f"pow.{type_}: {worst:.4f} of {bound} ulp at {where}, {a.size:,} values")


SPECIAL = [0.0, 1.0, np.inf, np.nan, 0.5, 2.0, 3.0, 1e30, 2.0**24 + 2]


@pytest.mark.parametrize("type_", OPS["pow"]["types"])
def test_special_cases_of_pow(machine: Machine, type_: str) -> None:
    """Those of IEEE 754, as numpy has them in f64; where they are not exact, within the bound."""
    values = np.array([*SPECIAL, *(-x for x in SPECIAL)], DTYPES[type_])
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    got = apply(machine, f"pow.{type_}", [(type_, a), (type_, b)], type_)
    wanted = np.power(a.astype(np.float64), b.astype(np.float64)).astype(DTYPES[type_])
    close = np.abs(got - wanted) <= np.spacing(np.abs(wanted))
    ordinary = np.isfinite(wanted) & (wanted != 0) & (wanted != 1)
    exact = (bits(got) == bits(wanted)) | (np.isnan(wanted) & (bits(got) == CANONICAL_NAN[type_]))
    right = np.where(ordinary, close, exact)
    assert right.all(), [(a[i], b[i], got[i], wanted[i]) for i in np.flatnonzero(~right)]


def test_large_arguments_are_the_same_alone_and_among_small_ones(machine: Machine) -> None:
    """The two ways to reduce an argument meet: a lane's result doesn't depend on its neighbours."""
    a = np.array([1.0, 2.0**20, 1e300, -1e22, 0.5, np.nan, -(2.0**20), 2.0**20 - 1e-10] * 9)
    together = apply(machine, "sin.f64", [("f64", a)], "f64")
    alone = [apply(machine, "sin.f64", [("f64", a[i : i + 1])], "f64")[0] for i in range(a.size)]
    assert together.tobytes() == np.array(alone).tobytes()
    assert from_bits(bits(together), "f64")[1] == pytest.approx(float(mpmath.sin(2**20)), abs=1e-15)
