"""Types of the instruction set as numpy sees them, and programs that apply one instruction."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from machine import Machine, Memory

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Array = npt.NDArray[Any]

SPEC = Path(__file__).parents[3] / "driver_shim" / "spec"
ISA: dict[str, Any] = tomllib.loads((SPEC / "isa.toml").read_text(encoding="utf-8"))
COSTS: dict[str, Any] = tomllib.loads((SPEC / "machine.toml").read_text(encoding="utf-8"))
OPS: dict[str, dict[str, Any]] = {op["name"]: op for op in ISA["op"]}

DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
}
FLOATS = ("f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2")
INTEGERS = ("i8", "i16", "i32", "i64", "u8")
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
CANONICAL_NAN = {
    "f32": 0x7FC00000,
    "f64": 0x7FF8000000000000,
    "f16": 0x7E00,
    "bf16": 0x7FC0,
    "f8e4m3": 0x7F,
    "f8e5m2": 0x7E,
}
# exponent bits, mantissa bits
FORMATS = {
    "f32": (8, 23),
    "f64": (11, 52),
    "f16": (5, 10),
    "bf16": (8, 7),
    "f8e4m3": (4, 3),
    "f8e5m2": (5, 2),
}
# bits of the largest finite value, and of what is next: infinity, or f8e4m3's NaN
LARGEST = {
    "f32": 0x7F7FFFFF,
    "f64": 0x7FEFFFFFFFFFFFFF,
    "f16": 0x7BFF,
    "bf16": 0x7F7F,
    "f8e4m3": 0x7E,
    "f8e5m2": 0x7B,
}
LANES = 4096


def bits(array: Array) -> Array:
    return array.view(UNSIGNED[array.dtype.itemsize])


def from_bits(values: Any, type_: str) -> Array:
    dtype = DTYPES[type_]
    return np.asarray(values, dtype=UNSIGNED[dtype.itemsize]).view(dtype)


def edges(type_: str) -> Array:
    """Values where formats, signs and rounding change."""
    if type_ in INTEGERS:
        info = np.iinfo(DTYPES[type_])
        near = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2]
        small = [0, 1, 2, 3, 5, 7, 8, 15, 31, 63, 64, 100]
        negative = [-v for v in small if info.min < 0]
        return np.array([*near, *small, *negative], dtype=DTYPES[type_])
    if DTYPES[type_].itemsize == 1:
        return from_bits(np.arange(256), type_)
    exponent, mantissa = FORMATS[type_]
    top, one = ((1 << exponent) - 1) << mantissa, ((1 << (exponent - 1)) - 1) << mantissa
    positive = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, one - 1, one]
    positive += [one + 1, one + (1 << mantissa), one + (3 << (mantissa - 1)), top - 1, top]
    positive += [CANONICAL_NAN[type_], top + 1]  # a quiet and a signalling NaN
    sign = 1 << (exponent + mantissa)
    return from_bits(positive + [p | sign for p in positive], type_)


def random_values(type_: str, count: int, seed: int) -> Array:
    """Half random bits, half of moderate size."""
    generator = np.random.default_rng(seed)
    dtype = DTYPES[type_]
    raw = generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    if type_ in FLOATS:
        raw[::2] = generator.normal(0, 10, raw[::2].size).astype(dtype)
    else:
        raw[::2] = generator.integers(0, 20, raw[::2].size).astype(dtype)
    return raw


def pairs(type_: str, seed: int = 1) -> tuple[Array, Array]:
    """All pairs of edge values, then random ones."""
    e = edges(type_)
    a, b = np.repeat(e, e.size), np.tile(e, e.size)
    return (
        np.concatenate([a, random_values(type_, 3000, seed)]),
        np.concatenate([b, random_values(type_, 3000, seed + 1)]),
    )


def program(name: str, types: list[str], out: str, *, uniform: frozenset[int] = frozenset()) -> str:
    """Text that applies `name` to one array an operand; arguments: count, inputs, output.

    Operands whose number is in `uniform` are read from the first element of their array.
    """
    size = {t: DTYPES[t].itemsize for t in {*types, out}}
    lines = [f".program {name}", f".lanes {LANES}", f".args {8 * (len(types) + 2)}"]
    lines += ["arg.i64 s0, 0", "block s1, 0", f"const.i64 s2, {LANES}", "mul.i64 s3, s1, s2"]
    lines += ["sub.i64 s4, s0, s3", "setvl s4, s4"]
    operands = []
    for i, t in enumerate(types):
        lines += [f"arg.i64 s5, {8 * (i + 1)}"]
        if i in uniform:
            lines.append(f"sload.{t} s{10 + i}, s5")
            operands.append(f"s{10 + i}")
            continue
        lines += [f"const.i64 s6, {size[t]}", "mul.i64 s6, s6, s3", "add.i64 s5, s5, s6"]
        lines.append(f"load.{t} v{1 + i}, s5")
        operands.append(f"v{1 + i}")
    lines += [f"{name} v0, " + ", ".join(operands), f"arg.i64 s5, {8 * (len(types) + 1)}"]
    lines += [f"const.i64 s6, {size[out]}", "mul.i64 s6, s6, s3", "add.i64 s5, s5, s6"]
    return "\n".join([*lines, f"store.{out} v0, s5", "exit"])


def apply(
    machine: Machine,
    name: str,
    inputs: list[tuple[str, Array]],
    out: str,
    *,
    level: int | None = None,
    threads: int = 1,
    uniform: frozenset[int] = frozenset(),
) -> Array:
    """The instruction applied lane by lane to arrays of the same length."""
    count = inputs[-1][1].size if len(uniform) < len(inputs) else LANES
    count = max(a.size for i, (_, a) in enumerate(inputs) if i not in uniform)
    total = sum(a.nbytes for _, a in inputs) + count * 8
    memory = Memory(pages=4 + total // 65536)
    addresses = [memory.place(a) for _, a in inputs]
    to = memory.place(np.zeros(count, dtype=DTYPES[out]))
    binary = machine.assemble(program(name, [t for t, _ in inputs], out, uniform=uniform))
    args = struct.pack(f"<{len(addresses) + 2}q", count, *addresses, to)
    grid = ((count + LANES - 1) // LANES, 1, 1)
    _, fault = machine.run(binary, memory, args, grid=grid, level=level, threads=threads)
    assert fault is None, fault
    return memory.read(to, count, DTYPES[out])


def assert_same(got: Array, expected: Array, *inputs: Array) -> None:
    """Bit for bit; where a NaN is expected, the canonical one."""
    expected_bits = bits(expected).copy()
    type_ = next(t for t, d in DTYPES.items() if d == got.dtype)
    if type_ in FLOATS:
        expected_bits[np.isnan(expected)] = CANONICAL_NAN[type_]
    wrong = np.flatnonzero(bits(got) != expected_bits)
    if wrong.size:
        i = int(wrong[0])
        at = [x[i] for x in inputs if x.size == got.size]
        raise AssertionError(
            f"{wrong.size} of {got.size} differ; first at {i}: inputs {at}, "
            f"expected {expected[i]!r} ({int(expected_bits[i]):#x}), "
            f"got {got[i]!r} ({int(bits(got)[i]):#x})"
        )
