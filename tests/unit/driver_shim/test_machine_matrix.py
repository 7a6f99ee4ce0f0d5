"""Tiles: each element of a product is a chain of fused multiply-adds over k ascending."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct

import numpy as np
import pytest
from machine import ILLEGAL_COMMAND, MISALIGNED, PAGE_FAULT, Fault, Machine, Memory
from programs import (
    CANONICAL_NAN,
    DTYPES,
    OPS,
    Array,
    apply,
    assert_same,
    bits,
    from_bits,
    random_values,
)

libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
FMA = {"f32": libm.fmaf, "f64": libm.fma}
for function, kind in ((libm.fmaf, ctypes.c_float), (libm.fma, ctypes.c_double)):
    function.argtypes, function.restype = [kind] * 3, kind

SHAPES = [
    (1, 1, 1),
    (2, 3, 4),
    (5, 17, 3),
    (16, 16, 16),
    (7, 64, 9),
    (13, 65, 2),
    (31, 100, 20),
    (128, 128, 3),
    (3, 128, 40),
]


def product(
    machine: Machine,
    type_: str,
    c: Array,
    a: Array,
    b: Array,
    *,
    layout: str = "row",
    level: int | None = None,
) -> Array:
    """c + a b on tiles, c loaded and stored by row, a and b by `layout`."""
    (m, k), n = a.shape, b.shape[1]
    memory = Memory()
    inputs = [a, b, c] if layout == "row" else [a.T, b.T, c]
    addresses = [memory.place(x) for x in inputs]
    strides = [x.shape[1] * x.itemsize for x in inputs]
    args = struct.pack("<9q", *addresses, *strides, m, k, n)
    lines = [".lanes 64", ".args 72", *(f"arg.i64 s{i}, {8 * i}" for i in range(9))]
    lines += [
        f"mload.{layout}.{type_} m0, s0, s3, s6, s7",
        f"mload.{layout}.{type_} m1, s1, s4, s7, s8",
    ]
    lines += [
        f"mload.{type_} m2, s2, s5, s6, s8",
        f"mma.{type_} m2, m0, m1",
        f"mstore.{type_} m2, s2, s5",
        "exit",
    ]
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args, level=level)
    assert fault is None, fault
    out: Array = memory.read(addresses[2], c.size, DTYPES[type_]).reshape(m, n)
    return out


def chain(type_: str, c: Array, a: Array, b: Array) -> Array:
    out: Array = c.copy()
    fma = FMA[type_]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = float(c[i, j])
            for k in range(a.shape[1]):
                total = fma(float(a[i, k]), float(b[k, j]), total)
            out[i, j] = total
    return out


def operands(shape: tuple[int, int, int], type_: str) -> tuple[Array, Array, Array]:
    m, n, k = shape
    generator = np.random.default_rng(m * n + k)
    dtype = DTYPES[type_]
    c, a, b = (generator.normal(size=s).astype(dtype) for s in ((m, n), (m, k), (k, n)))
    return c, a, b


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["row", "column"])
def test_product(machine: Machine, type_: str, shape: tuple[int, int, int], layout: str) -> None:
    c, a, b = operands(shape, type_)
    got = product(machine, type_, c, a, b, layout=layout)
    assert bits(got).tobytes() == bits(chain(type_, c, a, b)).tobytes()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_levels_give_the_same_bits(machine: Machine, type_: str) -> None:
    c, a, b = operands((128, 128, 128), type_)
    a[3, 5], b[7, 9], c[0, 0] = np.inf, 0, np.nan
    results = {product(machine, type_, c, a, b, level=level).tobytes() for level in range(3)}
    assert len(results) == 1


def test_nan_is_canonical(machine: Machine) -> None:
    c, a, b = operands((4, 4, 4), "f32")
    a[1, 1], b[1, 1] = np.inf, 0
    got = product(machine, "f32", c, a, b)
    assert bits(got)[1, 1] == CANONICAL_NAN["f32"]


def fault_of(machine: Machine, lines: list[str], args: bytes = b"") -> Fault:
    text = [".lanes 64", f".args {len(args)}", *lines, "exit"]
    _, fault = machine.run(machine.assemble("\n".join(text)), Memory(), args)
    assert fault is not None
    return fault


def test_faults(machine: Machine) -> None:
    sizes = ["const.i64 s1, 4", "const.i64 s2, 5", "const.i64 s3, 129", "const.i64 s4, 65536"]
    shapes = [*sizes, "mzero.f32 m0, s1, s2", "mzero.f32 m1, s1, s2", "mzero.f32 m2, s1, s2"]
    fault = fault_of(machine, [*shapes, "mma.f32 m0, m1, m2"])
    assert fault.status == ILLEGAL_COMMAND and "(4 x 5) += (4 x 5) (4 x 5)" in fault.cause
    fault = fault_of(machine, [*sizes, "mzero.f32 m0, s1, s3"])
    assert fault.status == ILLEGAL_COMMAND and "4 x 129" in fault.cause
    assert fault_of(machine, [*sizes, "mload.f32 m0, s0, s1, s1, s1"]).status == PAGE_FAULT
    assert fault_of(machine, [*sizes, "mload.f32 m0, s4, s2, s1, s1"]).status == MISALIGNED
    assert fault_of(machine, [*shapes, "mstore.f32 m0, s0, s4"]).status == PAGE_FAULT


def test_neighbours_of_a_stored_tile_are_not_touched(machine: Machine) -> None:
    memory = Memory()
    at = memory.place(np.full(4096, 7, np.int32))
    lines = [".lanes 64", ".args 8", "arg.i64 s0, 0", "const.i64 s1, 3", "const.i64 s2, 64"]
    lines += ["mzero.f32 m0, s1, s1", "mstore.f32 m0, s0, s2", "exit"]
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, struct.pack("<q", at))
    assert fault is None
    got = memory.read(at, 4096, np.int32)
    expected = np.full(4096, 7, np.int32)
    for row in range(3):
        expected[row * 16 : row * 16 + 3] = 0
    assert (got == expected).all()


NARROW = [("mmaw", "f32", t) for t in OPS["mmaw"]["types2"]] + [("mmai", "i32", "i8")]


def narrow_product(
    machine: Machine,
    op: str,
    sums: str,
    type_: str,
    c: Array,
    a: Array,
    b: Array,
    *,
    level: int | None = None,
) -> Array:
    """c + a b, a loaded by row and b by column."""
    (m, k), n = a.shape, b.shape[1]
    memory = Memory()
    inputs = [a, b.T, c]
    addresses = [memory.place(x) for x in inputs]
    strides = [x.shape[1] * x.itemsize for x in inputs]
    lines = [".lanes 64", ".args 72", *(f"arg.i64 s{i}, {8 * i}" for i in range(9))]
    lines += [
        f"mload.{type_} m0, s0, s3, s6, s7",
        f"mload.column.{type_} m1, s1, s4, s7, s8",
        f"mload.{sums} m2, s2, s5, s6, s8",
        f"{op}.{sums}.{type_} m2, m0, m1",
        f"mstore.{sums} m2, s2, s5",
        "exit",
    ]
    args = struct.pack("<9q", *addresses, *strides, m, k, n)
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args, level=level)
    assert fault is None, fault
    out: Array = memory.read(addresses[2], c.size, DTYPES[sums]).reshape(m, n)
    return out


def narrow_operands(
    shape: tuple[int, int, int], sums: str, type_: str
) -> tuple[Array, Array, Array]:
    m, n, k = shape
    if sums == "f32":
        c, a, b = operands(shape, "f32")
        return c, a.astype(DTYPES[type_]), b.astype(DTYPES[type_])
    a, b = (
        random_values(type_, m * k, 91).reshape(m, k),
        random_values(type_, k * n, 92).reshape(k, n),
    )
    return random_values(sums, m * n, 93).reshape(m, n), a, b


@pytest.mark.parametrize(("op", "sums", "type_"), NARROW)
@pytest.mark.parametrize("shape", SHAPES)
def test_product_of_narrow_tiles(
    machine: Machine, op: str, sums: str, type_: str, shape: tuple[int, int, int]
) -> None:
    """Exact products; sums in f32, fused and over k ascending, or in i32, wrapping."""
    c, a, b = narrow_operands(shape, sums, type_)
    if sums == "f32":
        wanted = chain("f32", c, a.astype(np.float32), b.astype(np.float32))
    else:
        wanted = (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    for level in range(3):
        got = narrow_product(machine, op, sums, type_, c, a, b, level=level)
        assert bits(got).tobytes() == bits(wanted).tobytes()
    print(f"{op}.{sums}.{type_}: {c.size} sums of {a.shape[1]} products, {shape}")


@pytest.mark.parametrize(
    ("type_", "stops"), [("f16", 2048), ("bf16", 256), ("f8e4m3", 16), ("f8e5m2", 8)]
)
def test_sums_are_wider_than_their_operands(machine: Machine, type_: str, stops: int) -> None:
    """Ones added up: a sum in the operands' own type would stop at `stops`."""
    assert DTYPES[type_].type(stops) + DTYPES[type_].type(1) == DTYPES[type_].type(stops)
    a, b = np.ones((1, 128), DTYPES[type_]), np.ones((128, 1), DTYPES[type_])
    total = np.zeros((1, 1), np.float32)
    for _ in range(32):
        total = narrow_product(machine, "mmaw", "f32", type_, total, a, b)
    assert total[0, 0] == 4096


def test_integer_sums_wrap(machine: Machine) -> None:
    a, b = np.full((1, 128), -128, np.int8), np.full((128, 1), -128, np.int8)
    c = np.full((1, 1), 2**31 - 1, np.int32)
    got = narrow_product(machine, "mmai", "i32", "i8", c, a, b)
    assert got[0, 0] == 2**31 - 1 + 128**3 - 2**32


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("type_", OPS["mload"]["types"])
def test_tiles_keep_all_bits(machine: Machine, type_: str, layout: str) -> None:
    """Loaded by row or column and stored the other way: transposed, NaN and all."""
    size = DTYPES[type_].itemsize
    a = from_bits(
        np.random.default_rng(5).integers(0, 1 << (8 * size - 1), 21 * 33), type_
    ).reshape(21, 33)
    memory = Memory()
    places = memory.place(a), memory.place(np.zeros_like(a))
    other = {"row": "column", "column": "row"}[layout]
    rows, columns = (21, 33) if layout == "row" else (33, 21)
    lines = [".lanes 64", ".args 48", *(f"arg.i64 s{i}, {8 * i}" for i in range(6))]
    lines += [
        f"mload.{layout}.{type_} m0, s0, s1, s4, s5",
        f"mstore.{other}.{type_} m0, s2, s3",
        "exit",
    ]
    args = struct.pack("<6q", places[0], 33 * size, places[1], 21 * size, rows, columns)
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args)
    assert fault is None, fault
    got = memory.read(places[1], a.size, a.dtype).reshape(33, 21)
    assert bits(got).tolist() == bits(a).T.tolist()


@pytest.mark.parametrize("type_", OPS["mcvt"]["types"])
@pytest.mark.parametrize("source", OPS["mcvt"]["types2"])
@pytest.mark.parametrize("mode", OPS["mcvt"]["modes"])
def test_tiles_are_converted_as_lanes_are(
    machine: Machine, mode: str, source: str, type_: str
) -> None:
    a = random_values(source, 21 * 33, 95)
    memory = Memory()
    places = memory.place(a), memory.place(np.zeros(a.size, DTYPES[type_]))
    lines = [".lanes 64", ".args 48", *(f"arg.i64 s{i}, {8 * i}" for i in range(6))]
    lines += [f"mload.{source} m0, s0, s1, s4, s5", f"mcvt.{mode}.{type_}.{source} m1, m0"]
    lines += [f"mstore.{type_} m1, s2, s3", "exit"]
    size = DTYPES[type_].itemsize
    args = struct.pack("<6q", places[0], 33 * a.itemsize, places[1], 33 * size, 21, 33)
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args)
    assert fault is None, fault
    wanted = apply(machine, f"cvt.{mode}.{type_}.{source}", [(source, a)], type_)
    assert_same(memory.read(places[1], a.size, DTYPES[type_]), wanted, a)
