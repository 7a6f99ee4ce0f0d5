"""Matrix instructions: each element is a chain of fused multiply-adds, as the C library has it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy
import pytest
from gate0_health.lanes import BITS, NARROW, Array, decode, different, run

if TYPE_CHECKING:
    import emu_runtime

SEED = 37
SHAPES = [(1, 1, 1), (5, 17, 3), (16, 16, 16), (13, 65, 7), (128, 128, 3), (3, 4, 128)]
"""Rows, columns, and the length of each sum."""

# Arguments: a, b, c; their strides in bytes, rows, the length of the sums, columns.
PRODUCT = """
.program product
.lanes 64
.args 72
{arguments}
mload.{type_} m0, s0, s3, s6, s7
mload.column.{type_} m1, s1, s4, s7, s8
mload.{sums} m2, s2, s5, s6, s8
{name} m2, m0, m1
mstore.{sums} m2, s2, s5
exit
"""
KINDS = [
    *[(f"mma.{type_}", type_, type_) for type_ in ("f32", "f64")],
    *[(f"mmaw.f32.{type_}", "f32", type_) for type_ in NARROW],
    ("mmai.i32.i8", "i32", "i8"),
]


@cache
def fused(sums: str) -> Callable[[float, float, float], float]:
    """fma or fmaf of the C library: one rounding."""
    library = ctypes.CDLL("libm.so.6")
    function = library.fmaf if sums == "f32" else library.fma
    kind = ctypes.c_float if sums == "f32" else ctypes.c_double
    function.argtypes, function.restype = [kind] * 3, kind
    return function


@cache
def operands(shape: tuple[int, int, int], sums: str, type_: str) -> tuple[Array, Array, Array]:
    rows, columns, length = shape
    generator = numpy.random.default_rng(SEED + rows * columns + length)

    def some(size: tuple[int, int], kind: str) -> Array:
        if kind in NARROW:  # any finite encoding that is not large
            top = {"f16": 0x4400, "bf16": 0x4080, "f8e4m3": 0x48, "f8e5m2": 0x44}[kind]
            sign = generator.integers(0, 2, size) << (8 * numpy.dtype(BITS[kind]).itemsize - 1)
            return (generator.integers(0, top, size) | sign).astype(BITS[kind])
        if kind in ("i8", "i32"):
            info = numpy.iinfo(BITS[kind])
            return generator.integers(info.min, info.max, size, BITS[kind], endpoint=True)
        return generator.normal(0, 1, size).astype(BITS[kind])

    return some((rows, length), type_), some((length, columns), type_), some((rows, columns), sums)


@cache
def chain(shape: tuple[int, int, int], sums: str, type_: str) -> Array:
    """c + a b: the sum starts from c, and k ascends."""
    a, b, c = operands(shape, sums, type_)
    if sums == "i32":
        whole: Array = c.astype(numpy.int64) + a.astype(numpy.int64) @ b.astype(numpy.int64)
        return whole.astype(numpy.int32)
    fma = fused(sums)
    left, right = decode(a, type_).tolist(), decode(b, type_).T.tolist()
    out: Array = c.copy()
    for i, row in enumerate(left):
        for j, column in enumerate(right):
            total = float(c[i, j])
            for x, y in zip(row, column, strict=True):
                total = fma(x, y, total)
            out[i, j] = total
    return out


@pytest.mark.check("gate0.instruction.matrix", obligations=["G0", "N2", "R1"], kind="focused test")
def test_matrix(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A product is summed in another order, type or number of roundings than is stated."""
    wrong, count = {}, 0
    for name, sums, type_ in KINDS:
        arguments = "\n".join(f"arg.i64 s{number}, {8 * number}" for number in range(9))
        text = PRODUCT.format(arguments=arguments, type_=type_, sums=sums, name=name)
        for shape in SHAPES:
            a, b, c = operands(shape, sums, type_)
            rows, columns, length = shape
            across = numpy.ascontiguousarray(b.T)
            strides = [length * a.itemsize, length * b.itemsize, columns * c.itemsize]
            extra = [*strides, rows, length, columns]
            (got,) = run(runtime, text, [a, across], [c], extra=extra, blocks=1)
            count += rows * columns * length
            expected = chain(shape, sums, type_)
            if found := different(got.reshape(-1), expected.reshape(-1)):
                wrong[f"{name} {shape}"] = found
    detail(seed=SEED, products=count, kinds=[kind[0] for kind in KINDS], mismatching=wrong)
    print(f"{count:,} products in {len(KINDS)} kinds of tiles and {len(SHAPES)} shapes")
    assert not wrong
