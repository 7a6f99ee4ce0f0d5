"""Arithmetic on floats, shifts and reductions: each result is the exact one, rounded once.

What is finite is computed in fractions and rounded to nearest even here; what an infinity, a NaN
or the sign of a zero makes of an operation is NumPy's word.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy
import pytest
from gate0_health.lanes import (
    BITS,
    EDGES,
    INTEGERS,
    LEAST,
    MANTISSA,
    Array,
    apply,
    different,
    run,
)

if TYPE_CHECKING:
    import emu_runtime

SEED = 29
FLOATS = ("f32", "f64")
POINTS = 300
ROOT_BITS = 640  # behind the point: more than the least f64 has, and its root's 53 and one to spare


def root(value: Fraction) -> Fraction:
    """The square root; where it is not exact, odd in a place that no rounding reaches."""
    whole = int(value * 4**ROOT_BITS)
    found = math.isqrt(whole)
    return Fraction(2 * found + (found * found != whole), 2 ** (ROOT_BITS + 1))


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Of NumPy's numbers, where one is no finite one: a product that is too large is none."""
    return c if numpy.isfinite(a) and numpy.isfinite(b) and not numpy.isfinite(c) else a * b + c


EXACT: dict[str, tuple[Callable[..., Fraction], Callable[..., Any]]] = {
    "add": (operator.add, numpy.add),
    "sub": (operator.sub, numpy.subtract),
    "mul": (operator.mul, numpy.multiply),
    "div": (operator.truediv, numpy.divide),
    "sqrt": (root, numpy.sqrt),
    "fma": (lambda a, b, c: a * b + c, multiply_add),
}
OPERANDS = {"sqrt": 1, "fma": 3}
"""Two, for the others."""


def rounded(value: Fraction, type_: str) -> float:
    """To nearest even, of a value that is not zero; infinity for what is too large."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - MANTISSA[type_], LEAST[type_])
    nearest = round(size / unit) * unit
    found = math.inf if nearest > numpy.finfo(BITS[type_]).max.item() else float(nearest)
    return found if value > 0 else -found


@cache
def operands(type_: str, count: int) -> tuple[Array, ...]:
    """Special values in each place; numbers of like and of any size, and near cancellation."""
    info = numpy.finfo(BITS[type_])
    tiny, huge = float(info.smallest_subnormal), float(info.max)
    special = [0.0, 1.0, 3.0, math.inf, math.nan, tiny, float(info.smallest_normal), huge]
    both = [value for one in special for value in (one, -one)]
    parts = [numpy.array(list(itertools.product(both, repeat=count)), BITS[type_])]
    generator = numpy.random.default_rng(SEED)
    alike = generator.normal(0, 1, (POINTS, count)).astype(BITS[type_])
    low, high = math.log2(tiny), math.log2(huge)
    signs = generator.choice([-1.0, 1.0], (POINTS, count))
    any_size = numpy.exp2(generator.uniform(low, high, (POINTS, count))) * signs
    parts += [alike, any_size.astype(BITS[type_])]
    # The last operand is close to minus what the others make: all but the last bits cancel.
    near = alike.copy()
    near[:, -1] = -numpy.prod(near[:, :-1], axis=1, dtype=near.dtype)
    near[::2, -1] = numpy.nextafter(near[::2, -1], BITS[type_](0))
    parts.append(near)
    return tuple(numpy.concatenate(parts).T.copy())


@cache
def result(name: str, type_: str) -> Array:
    exact, numpys = EXACT[name]
    values = []
    for numbers in zip(*operands(type_, OPERANDS.get(name, 2)), strict=True):
        value = Fraction(0)
        fractions = [Fraction(float(one)) for one in numbers if numpy.isfinite(one)]
        if len(fractions) == len(numbers) and not (
            (name == "div" and not fractions[1]) or (name == "sqrt" and fractions[0] < 0)
        ):
            value = exact(*fractions)
        with numpy.errstate(all="ignore"):
            values.append(rounded(value, type_) if value else numpys(*numbers))
    return numpy.array(values, BITS[type_])


SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shl": lambda a, n, bits: a << n if 0 <= n < bits else 0,
    "shr": lambda a, n, bits: a >> n if 0 <= n < bits else -(a < 0),
    "shru": lambda a, n, bits: a % (1 << bits) >> n if 0 <= n < bits else 0,
}


@cache
def shifts(type_: str) -> tuple[Array, Array]:
    """Edges, by every count that has a meaning, and some that have none."""
    info = numpy.iinfo(BITS[type_])
    counts = [*range(info.bits + 2), *(edge for edge in EDGES[type_] if edge > 64 or edge < 0)]
    a, n = numpy.array(list(itertools.product(EDGES[type_], counts)), BITS[type_]).T.copy()
    return a, n


@cache
def shifted(name: str, type_: str) -> Array:
    bits = numpy.iinfo(BITS[type_]).bits
    both = zip(*(array.tolist() for array in shifts(type_)), strict=True)
    values = [SHIFTS[name](a, n, bits) % (1 << bits) for a, n in both]
    return numpy.array(values, f"u{bits // 8}").view(BITS[type_])


# Arguments: the number of lanes, their values, the result.
REDUCE = """
.program reduce
.lanes 4096
.args 24
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
setvl s0, s0
load.{type} v0, s1
reduce.{mode}.{type} s3, v0
sstore.{type} s3, s2
exit
"""
PARTIALS = 16
REDUCTIONS = {
    "sum": numpy.add,
    "prod": numpy.multiply,
    "min": numpy.minimum,
    "max": numpy.maximum,
}


def identity(mode: str, type_: str) -> Any:
    if mode in ("sum", "prod"):
        return mode == "prod"
    if type_ in FLOATS:
        return math.inf if mode == "min" else -math.inf
    info = numpy.iinfo(BITS[type_])
    return info.max if mode == "min" else info.min


def reduced(mode: str, values: Array, type_: str) -> Array:
    """In the order that is part of the contract: 16 partials, then halves of them."""
    combine = REDUCTIONS[mode]
    if not values.size:
        return numpy.array([identity(mode, type_)], values.dtype)
    partials: Array = values[:PARTIALS].copy()
    with numpy.errstate(all="ignore"):
        for start in range(PARTIALS, values.size, PARTIALS):
            row = values[start : start + PARTIALS]
            partials[: row.size] = combine(partials[: row.size], row)
        for step in (8, 4, 2, 1):
            other = partials[step : 2 * step]
            partials[: other.size] = combine(partials[: other.size], other)
            partials = partials[:step]
    return partials


@cache
def reductions() -> list[tuple[str, str, Array]]:
    """Mode, type and values: of a size for each way to have partials, and with a NaN."""
    generator = numpy.random.default_rng(SEED)
    found = []
    for type_ in (*FLOATS, "i32", "i64"):
        for size in (0, 1, 7, 15, 16, 17, 31, 64, 1000, 4096):
            if type_ in FLOATS:
                values = generator.normal(0, 1, size).astype(BITS[type_])
            else:
                info = numpy.iinfo(BITS[type_])
                values = generator.integers(info.min, info.max, size, BITS[type_], endpoint=True)
            found += [(mode, type_, values) for mode in REDUCTIONS]
            if type_ in FLOATS and size:
                holed = values.copy()
                holed[size // 2] = math.nan
                found += [(mode, type_, holed) for mode in REDUCTIONS]
    return found


@pytest.mark.check(
    "gate0.instruction.arithmetic", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_arithmetic(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A sum, product, quotient, root or shift is off by a bit, or a sum is in another order."""
    wrong: dict[str, Any] = {}
    counts = dict.fromkeys(("floats", "shifts", "reductions"), 0)
    for type_, name in itertools.product(FLOATS, EXACT):
        given = operands(type_, OPERANDS.get(name, 2))
        got = apply(runtime, f"{name}.{type_}", [(type_, array) for array in given], type_)
        counts["floats"] += got.size
        if found := different(got, result(name, type_), *given):
            wrong[f"{name}.{type_}"] = found
    for type_, name in itertools.product(INTEGERS, SHIFTS):
        given = shifts(type_)
        got = apply(runtime, f"{name}.{type_}", [(type_, array) for array in given], type_)
        counts["shifts"] += got.size
        if found := different(got, shifted(name, type_), *given):
            wrong[f"{name}.{type_}"] = found
    for mode, type_, values in reductions():
        text = REDUCE.format(mode=mode, type=type_)
        room = numpy.zeros(1, BITS[type_])
        (got,) = run(runtime, text, [values], [room], count=values.size)
        counts["reductions"] += 1
        if found := different(got, reduced(mode, values, type_)):
            wrong[f"reduce.{mode}.{type_} of {values.size}"] = found
    detail(seed=SEED, mismatching=wrong, **counts)
    print(f"{counts['floats']:,} results of floats, {counts['shifts']:,} shifts")
    assert not wrong
