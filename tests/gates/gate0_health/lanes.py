"""One instruction over arrays: each lane gets an element of each, through the installed runtime.

Narrow floats are arrays of their bits. What they stand for is PyTorch's word, not ours.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy
import torch

if TYPE_CHECKING:
    import emu_runtime

Array = numpy.ndarray[Any, Any]

LANES = 4096
NARROW = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
BITS: dict[str, type[Any]] = {
    **{"f16": numpy.uint16, "bf16": numpy.uint16, "f8e4m3": numpy.uint8, "f8e5m2": numpy.uint8},
    **{"f32": numpy.float32, "f64": numpy.float64, "u8": numpy.uint8},
    **{f"i{bits}": numpy.dtype(f"i{bits // 8}").type for bits in (8, 16, 32, 64)},
}
"""The element of each type's arrays."""
MANTISSA = {"f32": 23, "f64": 52}
"""Stored bits of it."""
LEAST = {"f32": -149, "f64": -1074}
"""The exponent of the least value, which is what all others are multiples of."""
INTEGERS = ("i8", "i16", "i32", "i64", "u8")
EDGES = {
    name: [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, 0, 1, 2, 3, 7, 64]
    + [-number for number in (1, 2, 3, 7, 64) if info.min < 0]
    for name in INTEGERS
    for info in [numpy.iinfo(BITS[name])]
}


@cache
def encodings(type_: str) -> Array:
    """Every one of a narrow float."""
    kind = numpy.dtype(BITS[type_])
    return numpy.arange(1 << (8 * kind.itemsize), dtype=kind)


def decode(bits: Array, type_: str) -> Array:
    """The values, as f64, which holds each of every type but i64."""
    if type_ not in NARROW:
        return bits.astype(numpy.float64)
    signed = {1: numpy.uint8, 2: numpy.int16}[bits.dtype.itemsize]
    word = torch.from_numpy(bits.view(signed).copy())
    values: Array = word.view(NARROW[type_]).to(torch.float64).numpy()
    return values


@cache
def program(name: str, types: tuple[str, ...], out: str) -> str:
    """Arguments: the number of elements, the address of each array, that of the results."""
    lines = [f".program {name.split('.')[0]}", f".lanes {LANES}", f".args {8 * (len(types) + 2)}"]
    lines += ["arg.i64 s0, 0", "block s1, 0", f"const.i64 s2, {LANES}", "mul.i64 s3, s1, s2"]
    lines += ["sub.i64 s4, s0, s3", "setvl s4, s4"]

    def at(number: int, type_: str) -> list[str]:
        size = numpy.dtype(BITS[type_]).itemsize
        text = f"arg.i64 s5, {8 * number} : const.i64 s6, {size} : mul.i64 s6, s6, s3"
        return [*text.split(" : "), "add.i64 s5, s5, s6"]

    for number, type_ in enumerate(types, 1):
        lines += [*at(number, type_), f"load.{type_} v{number}, s5"]
    operands = [f"v{number}" for number in range(len(types) + 1)]
    lines += [f"{name} {', '.join(operands)}", *at(len(types) + 1, out), f"store.{out} v0, s5"]
    return "\n".join([*lines, "exit"])


def apply(
    runtime: emu_runtime.Device, name: str, inputs: Sequence[tuple[str, Array]], out: str
) -> Array:
    """`name` of the arrays, which are of one length, element by element."""
    count = inputs[0][1].size
    text = program(name, tuple(type_ for type_, _ in inputs), out)
    result = numpy.zeros(count, BITS[out])
    (got,) = run(runtime, text, [array for _, array in inputs], [result], count=count)
    return got


def run(
    runtime: emu_runtime.Device,
    text: str,
    inputs: Sequence[Array],
    changed: Sequence[Array],
    *,
    count: int | None = None,
    extra: Sequence[int] = (),
    blocks: int | None = None,
) -> list[Array]:
    """Run a program on copies of the arrays; what the last of them, `changed`, are then.

    Its arguments are i64: `count` where there is one, the address of each array, and `extra`.
    """
    import emu_runtime

    arrays = [numpy.ascontiguousarray(array) for array in (*inputs, *changed)]
    addresses = [runtime.alloc(max(array.nbytes, 1)) for array in arrays]
    try:
        for address, array in zip(addresses, arrays, strict=True):
            runtime.write(address, array.tobytes())
        numbers = [*([] if count is None else [count]), *addresses, *extra]
        grid = -(-(count or 1) // LANES) if blocks is None else blocks
        module = emu_runtime.Module(runtime.index, text)
        module.launch((grid, 1, 1), struct.pack(f"<{len(numbers)}q", *numbers))
        results = list(zip(addresses, arrays, strict=True))[len(inputs) :]
        return [
            numpy.frombuffer(runtime.read(address, array.nbytes), array.dtype).reshape(array.shape)
            for address, array in results
        ]
    finally:
        for address in addresses:
            runtime.free(address)


def different(got: Array, expected: Array, *inputs: Array) -> list[dict[str, Any]]:
    """The first elements whose bits differ, any NaN being like any other, for a record."""
    word = numpy.dtype(f"u{got.dtype.itemsize}")
    wrong = got.view(word) != expected.view(word)
    if got.dtype.kind == "f":
        wrong &= ~(numpy.isnan(got) & numpy.isnan(expected))
    return [
        {
            "index": int(place),
            "inputs": [repr(array[place].item()) for array in inputs],
            "got": repr(got[place].item()),
            "expected": repr(expected[place].item()),
        }
        for place in numpy.flatnonzero(wrong)[:4]
    ]
