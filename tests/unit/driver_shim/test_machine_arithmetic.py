"""Arithmetic, comparison, selection and rounding against numpy and Python integers, bit for bit."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from machine import Machine, Memory
from programs import (
    CANONICAL_NAN,
    DTYPES,
    FLOATS,
    INTEGERS,
    LANES,
    OPS,
    Array,
    apply,
    assert_same,
    bits,
    edges,
    from_bits,
    pairs,
    random_values,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def wrap(value: int, type_: str) -> int:
    info = np.iinfo(DTYPES[type_])
    span = int(info.max) - int(info.min) + 1
    return (value - int(info.min)) % span + int(info.min)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def divide(a: int, b: int) -> int:
    return -1 if b == 0 else truncated(a, b)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - truncated(a, b) * b


def minimum(a: Array, b: Array) -> Array:
    """NaN if either is; of zeros, the negative one."""
    out = np.where(a < b, a, b)
    out = np.where((a == b) & np.signbit(a), a, out)
    return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), out)


def maximum(a: Array, b: Array) -> Array:
    out = np.where(a > b, a, b)
    out = np.where((a == b) & np.signbit(b), a, out)
    return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), out)


FLOAT_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rem": np.fmod,
    "min": minimum,
    "max": maximum,
}


def shift_left(bits_: int) -> Callable[[int, int], int]:
    return lambda a, b: a << b if 0 <= b < bits_ else 0


def shift_right(bits_: int) -> Callable[[int, int], int]:
    return lambda a, b: a >> b if 0 <= b < bits_ else (-1 if a < 0 else 0)


def integer_binary(op: str, type_: str) -> Callable[[int, int], int]:
    width = DTYPES[type_].itemsize * 8
    table: dict[str, Callable[[int, int], int]] = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": divide,
        "rem": remainder,
        "min": min,
        "max": max,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "shl": shift_left(width),
        "shr": shift_right(width),
    }
    return table[op]


def narrow(array: Array, type_: str) -> Array:
    return array.astype(DTYPES[type_])


BINARY = [
    (op, t) for op in [*FLOAT_BINARY, "and", "or", "xor", "shl", "shr"] for t in OPS[op]["types"]
]


@pytest.mark.parametrize(("op", "type_"), BINARY)
def test_binary(machine: Machine, op: str, type_: str) -> None:
    a, b = pairs(type_)
    if type_ in INTEGERS:
        f = integer_binary(op, type_)
        values = [wrap(f(int(x), int(y)), type_) for x, y in zip(a, b, strict=True)]
        expected: Array = np.array(values, dtype=DTYPES[type_])
    elif type_ in ("f16", "bf16"):
        expected = narrow(FLOAT_BINARY[op](a.astype(np.float32), b.astype(np.float32)), type_)
    else:
        expected = FLOAT_BINARY[op](a, b)
    assert_same(apply(machine, f"{op}.{type_}", [(type_, a), (type_, b)], type_), expected, a, b)


@pytest.mark.parametrize("type_", OPS["add"]["types"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_uniform_operand_stands_for_a_vector(machine: Machine, type_: str, which: int) -> None:
    a, b = random_values(type_, 5000, 3), random_values(type_, 5000, 4)
    inputs = [(type_, a), (type_, b)]
    got = apply(machine, f"sub.{type_}", inputs, type_, uniform=frozenset({which}))
    repeated = [(t, np.full_like(x, x[0]) if i == which else x) for i, (t, x) in enumerate(inputs)]
    expected = apply(machine, f"sub.{type_}", repeated, type_)
    assert bits(got).tobytes() == bits(expected).tobytes()


def nearest(exact: Fraction, type_: str) -> Any:
    """The value of the type nearest to `exact`, of two the even one."""
    dtype = DTYPES[type_]
    try:
        guess = dtype.type(exact.numerator / exact.denominator)
    except OverflowError:
        return dtype.type(np.inf if exact > 0 else -np.inf)
    if not np.isfinite(guess):
        return guess
    around = [
        np.nextafter(guess, dtype.type(-np.inf)),
        guess,
        np.nextafter(guess, dtype.type(np.inf)),
    ]
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(bits(c)) & 1))


@pytest.mark.parametrize("type_", OPS["fma"]["types"])
def test_fma_rounds_once(machine: Machine, type_: str) -> None:
    a, b = pairs(type_, 5)
    c = np.roll(b, 17)
    c[-1500:] = -(a[-1500:] * b[-1500:])  # what is left is the rounding error of the product
    got = apply(machine, f"fma.{type_}", [(type_, a), (type_, b), (type_, c)], type_)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for i in np.flatnonzero(finite):
        exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        assert got[i] == nearest(exact, type_), (a[i], b[i], c[i])
    one_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    assert (bits(got)[one_nan] == CANONICAL_NAN[type_]).all()


@pytest.mark.parametrize(("op", "type_"), [(o, t) for o in ("neg", "abs") for t in OPS[o]["types"]])
def test_sign(machine: Machine, op: str, type_: str) -> None:
    a = np.concatenate([edges(type_), random_values(type_, 1000, 7)])
    got = apply(machine, f"{op}.{type_}", [(type_, a)], type_)
    if type_ in FLOATS:  # bits only: the payload of a NaN stays
        sign = 1 << (a.dtype.itemsize * 8 - 1)
        unsigned = bits(a)
        expected = unsigned ^ unsigned.dtype.type(sign)
        if op == "abs":
            expected = unsigned & unsigned.dtype.type(sign - 1)
        assert (bits(got) == expected).all()
    else:
        f = operator.neg if op == "neg" else abs
        values = [wrap(f(int(x)), type_) for x in a]
        assert_same(got, np.array(values, dtype=DTYPES[type_]), a)


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize(
    ("op", "f"),
    [
        ("sqrt", np.sqrt),
        ("round.floor", np.floor),
        ("round.ceil", np.ceil),
        ("round.trunc", np.trunc),
        ("round.even", np.rint),
    ],
)
def test_unary(machine: Machine, op: str, f: Callable[[Array], Array], type_: str) -> None:
    halves = np.arange(-9, 9, 0.5).astype(DTYPES[type_])
    a = np.concatenate([edges(type_), halves, random_values(type_, 4000, 9)])
    assert_same(apply(machine, f"{op}.{type_}", [(type_, a)], type_), f(a), a)


RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("type_", OPS["cmp"]["types"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_compare_and_select(machine: Machine, type_: str, relation: str) -> None:
    a, b = pairs(type_, 11)
    a, b = a[:LANES], b[:LANES]
    select = f"cmp.{relation}.{type_} p1, v1, v2\nsel.{type_}"
    text = f"{select} v0, p1,"
    got = apply_raw(machine, text, type_, a, b)
    holds = RELATIONS[relation](a, b)
    expected = np.where(holds, bits(a), bits(b))
    assert (bits(got) == expected).all()


def apply_raw(machine: Machine, text: str, type_: str, a: Array, b: Array) -> Array:
    """`text` ends before the two vector operands v1, v2 of its last instruction."""
    memory = Memory()
    args = struct.pack("<qqqq", a.size, *(memory.place(x) for x in (a, b, np.zeros_like(a))))
    lines = [f".lanes {LANES}", ".args 32", "arg.i64 s0, 0", "setvl s0, s0"]
    lines += ["arg.i64 s1, 8", f"load.{type_} v1, s1", "arg.i64 s1, 16", f"load.{type_} v2, s1"]
    lines += [f"{text} v1, v2", "arg.i64 s1, 24", f"store.{type_} v0, s1", "exit"]
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args)
    assert fault is None, fault
    return memory.read(struct.unpack("<qqqq", args)[3], a.size, a.dtype)


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_narrow_arithmetic_rounds_to_nearest_even(machine: Machine, type_: str) -> None:
    """Every f16 or bf16 plus one: numpy and ml_dtypes as oracles."""
    a = from_bits(np.arange(65536), type_)
    b = np.full(65536, 1, dtype=a.dtype)
    expected = narrow(a.astype(np.float32) + np.float32(1), type_)
    assert expected.dtype in (np.float16, ml_dtypes.bfloat16)
    assert_same(apply(machine, f"add.{type_}", [(type_, a), (type_, b)], type_), expected, a)
