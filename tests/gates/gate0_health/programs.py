"""Device programs of these checks, as text of the instruction set, and their launches."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import emu_runtime

LANES = 256

EMPTY = """
.program empty
.lanes 64
.args 0
exit
"""

# y[i] = x[i] * factor + y[i] over f32, a block for each 256 elements.
SCALE_ADD = f"""
.program scale_add
.lanes {LANES}
.args 32
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
arg.f32 s3, 24
block s4, 0
const.i64 s5, {LANES}
mul.i64 s6, s4, s5
sub.i64 s7, s2, s6
setvl s8, s7
const.i64 s9, 4
mul.i64 s10, s6, s9
add.i64 s11, s0, s10
add.i64 s12, s1, s10
load.f32 v0, s11
load.f32 v1, s12
fma.f32 v2, v0, s3, v1
store.f32 v2, s12
exit
"""

# x = x * a + b on one i64 at an address: what comes out tells the order of the launches.
AFFINE = """
.program affine
.lanes 64
.args 24
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
sload.i64 s3, s0
mul.i64 s4, s3, s1
add.i64 s5, s4, s2
sstore.i64 s5, s0
exit
"""

MODULUS = 2**64


def scale_add(
    module: emu_runtime.Module,
    x: int,
    y: int,
    count: int,
    factor: float,
    stream: emu_runtime.Stream | None = None,
) -> None:
    arguments = struct.pack("<qqqf4x", x, y, count, factor)
    module.launch(((count + LANES - 1) // LANES, 1, 1), arguments, stream)


def affine(
    module: emu_runtime.Module,
    address: int,
    a: int,
    b: int,
    stream: emu_runtime.Stream | None = None,
) -> None:
    module.launch((1, 1, 1), struct.pack("<qqq", address, a, b), stream)


def affine_result(value: int, steps: list[tuple[int, int]]) -> int:
    """What `steps` of x = x * a + b make of `value`, in 64-bit arithmetic."""
    for a, b in steps:
        value = (value * a + b) % MODULUS
    return value
