"""Reductions in the order that isa.toml fixes, against the same order written out in Python."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from machine import Machine, Memory
from programs import DTYPES, OPS, Array, assert_same, bits, edges, random_values

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")

PARTIALS = 16
LENGTHS = [0, 1, 2, 7, 15, 16, 17, 31, 33, 100, 1000, 4095, 4096]


def reduce(machine: Machine, name: str, type_: str, a: Array) -> int:
    """The 64 bits of the uniform register that the reduction gives."""
    memory = Memory()
    args = struct.pack("<qqq", a.size, memory.place(a), memory.place(np.zeros(1, np.int64)))
    lines = [".lanes 4096", ".args 24", "arg.i64 s0, 0", "setvl s0, s0", "arg.i64 s1, 8"]
    lines += [
        f"load.{type_} v1, s1",
        f"{name} s2, v1",
        "arg.i64 s1, 16",
        "sstore.i64 s2, s1",
        "exit",
    ]
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args)
    assert fault is None
    return int(memory.read(struct.unpack("<qqq", args)[2], 1, np.int64)[0])


def fold(a: Array, f: Callable[[Any, Any], Any], identity: Any) -> Any:
    if a.size == 0:
        return identity
    partial = [a[j] for j in range(min(PARTIALS, a.size))]
    for i in range(PARTIALS, a.size):
        partial[i % PARTIALS] = f(partial[i % PARTIALS], a[i])
    half = PARTIALS // 2
    while half:
        for j in range(half):
            if j + half < len(partial):
                partial[j] = f(partial[j], partial[j + half])
        half //= 2
    return partial[0]


def lesser(a: Any, b: Any) -> Any:
    if a != a or b != b:
        return a if a != a else b
    return a if a < b or (a == b and np.signbit(a)) else b


def greater(a: Any, b: Any) -> Any:
    if a != a or b != b:
        return a if a != a else b
    return a if a > b or (a == b and not np.signbit(a)) else b


def operation(mode: str, type_: str) -> tuple[Callable[[Any, Any], Any], Any]:
    dtype = DTYPES[type_]
    info: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    most, least = (np.inf, -np.inf) if dtype.kind == "f" else (info.max, info.min)
    return {
        "sum": (lambda a, b: a + b, dtype.type(0)),
        "prod": (lambda a, b: a * b, dtype.type(1)),
        "min": (lesser, dtype.type(most)),
        "max": (greater, dtype.type(least)),
    }[mode]


def as_value(raw: int, type_: str) -> Array:
    size = DTYPES[type_].itemsize
    if type_.startswith("f"):
        assert raw >> (8 * size) == 0 or size == 8
    else:
        assert int(np.int64(raw).astype(DTYPES[type_])) == raw  # sign-extended
    return np.array([raw], dtype=np.int64).view(np.uint8)[:size].view(DTYPES[type_])


@pytest.mark.parametrize("type_", OPS["reduce"]["types"])
@pytest.mark.parametrize("mode", OPS["reduce"]["modes"])
@pytest.mark.parametrize("length", LENGTHS)
def test_reduce(machine: Machine, mode: str, type_: str, length: int) -> None:
    f, identity = operation(mode, type_)
    numbers = np.random.default_rng(length)
    a = numbers.normal(1, 0.1, length) * numbers.choice([-1, 1], length)
    a = a.astype(DTYPES[type_])
    if not type_.startswith("f"):
        a = random_values(type_, length, length)
    got = as_value(reduce(machine, f"reduce.{mode}.{type_}", type_, a), type_)
    assert_same(got, np.array([fold(a, f, identity)], dtype=DTYPES[type_]))


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("mode", OPS["reduce"]["modes"])
def test_special_values(machine: Machine, mode: str, type_: str) -> None:
    f, identity = operation(mode, type_)
    ordered = edges(type_)[~np.isnan(edges(type_))]
    below = [-np.inf, -2.5, -1e-40, -0.0]
    cases = [[-0.0] * 20, [0.0, -0.0] * 9, [np.inf, 1], [1, np.nan, 2], [-np.inf] * 3, below]
    for case in (*cases, ordered, ordered[::-1], edges(type_), [-np.nan, *below]):
        a = np.array(case, dtype=DTYPES[type_])
        got = as_value(reduce(machine, f"reduce.{mode}.{type_}", type_, a), type_)
        assert_same(got, np.array([fold(a, f, identity)], dtype=DTYPES[type_]))


@pytest.mark.parametrize("type_", OPS["argreduce"]["types"])
@pytest.mark.parametrize("mode", OPS["argreduce"]["modes"])
@pytest.mark.parametrize("length", LENGTHS)
def test_argreduce_gives_the_lowest_lane(
    machine: Machine, mode: str, type_: str, length: int
) -> None:
    a = np.random.default_rng(length).integers(-9, 9, length).astype(DTYPES[type_])
    expected = -1 if length == 0 else int(a.argmin() if mode == "min" else a.argmax())
    assert reduce(machine, f"argreduce.{mode}.{type_}", type_, a) == expected


@pytest.mark.parametrize("mode", ["min", "max"])
def test_argreduce_finds_the_first_nan(machine: Machine, mode: str) -> None:
    a = np.arange(100, dtype=np.float32)
    a[[40, 70]] = np.nan
    assert reduce(machine, f"argreduce.{mode}.f32", "f32", a) == 40


@pytest.mark.parametrize(("values", "expected"), [([0, 0, 0], 0), ([0, 0, 1], 1), ([], 0)])
def test_any(machine: Machine, values: list[int], expected: int) -> None:
    a = np.array(values, dtype=np.int32)
    got = reduce(
        machine, "const.i32 v2, 1\ncmp.eq.i32 p3, v1, v2\nany s2, p3\nmov.i64 s2, s2;", "i32", a
    )
    assert got == expected


def test_the_order_can_be_told_apart() -> None:
    """On this input a plain left-to-right sum differs, so the test above sees the order."""
    a = np.random.default_rng(1000).normal(1, 0.1, 1000).astype(np.float32)
    straight = a[0]
    for x in a[1:]:
        straight = straight + x
    f, identity = operation("sum", "f32")
    assert bits(np.array([straight]))[0] != bits(np.array([fold(a, f, identity)]))[0]


def accumulate(a: Array, f: Callable[[Any, Any], Any], identity: Any, *, inclusive: bool) -> Array:
    out: list[Any] = []
    so_far: Any = None
    for x in a:
        before, so_far = so_far, x if so_far is None else f(so_far, x)
        out.append(so_far if inclusive else identity if before is None else before)
    return np.array(out, dtype=a.dtype)


def scan(machine: Machine, name: str, type_: str, a: Array, *, in_place: bool = False) -> Array:
    memory = Memory()
    places = (memory.place(a), memory.place(np.zeros_like(a)))
    register = "v1" if in_place else "v2"
    lines = [
        ".lanes 4096",
        ".args 24",
        *(f"arg.i64 s{i}, {8 * i}" for i in range(3)),
        "setvl s0, s0",
    ]
    lines += [
        f"load.{type_} v1, s1",
        f"{name}.{type_} {register}, v1",
        f"store.{type_} {register}, s2",
    ]
    args = struct.pack("<qqq", a.size, *places)
    _, fault = machine.run(machine.assemble("\n".join([*lines, "exit"])), memory, args)
    assert fault is None, fault
    return memory.read(places[1], a.size, a.dtype)


@pytest.mark.parametrize("type_", OPS["scan"]["types"])
@pytest.mark.parametrize("mode", OPS["scan"]["modes"])
@pytest.mark.parametrize("name", ["scan", "scanx"])
@pytest.mark.parametrize("length", [0, 1, 2, 17, 1000, 4096])
def test_scan(machine: Machine, name: str, mode: str, type_: str, length: int) -> None:
    f, identity = operation(mode, type_)
    numbers = np.random.default_rng(length)
    a = numbers.normal(1, 0.1, length) * numbers.choice([-1, 1], length)
    a = a.astype(DTYPES[type_])
    if not type_.startswith("f"):
        a = random_values(type_, length, length)
    wanted = accumulate(a, f, identity, inclusive=name == "scan")
    for in_place in (False, True):
        assert_same(scan(machine, f"{name}.{mode}", type_, a, in_place=in_place), wanted, a)


@pytest.mark.parametrize("mode", OPS["scan"]["modes"])
@pytest.mark.parametrize("name", ["scan", "scanx"])
def test_special_values_in_scans(machine: Machine, name: str, mode: str) -> None:
    f, identity = operation(mode, "f32")
    for case in (
        [-0.0, -0.0, 0.0, -0.0],
        [np.inf, -np.inf, 1],
        [1, np.nan, 2],
        edges("f32").tolist(),
    ):
        a = np.array(case, dtype=np.float32)
        wanted = accumulate(a, f, identity, inclusive=name == "scan")
        assert_same(scan(machine, f"{name}.{mode}", "f32", a), wanted, a)


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_a_sum_scan_is_the_cumulative_sum_of_numpy(machine: Machine, type_: str) -> None:
    """numpy adds in the same order, so it agrees to the bit."""
    a = np.random.default_rng(5).normal(0, 1, 4096).astype(DTYPES[type_])
    assert_same(scan(machine, "scan.sum", type_, a), np.cumsum(a, dtype=a.dtype), a)
