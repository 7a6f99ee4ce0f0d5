"""Gather and scatter: masked lanes and indices out of bounds touch no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy
import pytest
from child import run_python
from gate0_health.lanes import Array, different, run

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.serving import Node

SEED = 29
LANES = 4096
COUNT = 1000
# Arguments: indices, mask, table, gathered, table to scatter into; the table's length. Lanes whose
# mask is 0 keep -1 and store nothing.
BOUNDED = f"""
.program bounded
.lanes {LANES}
.args 48
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
arg.i64 s3, 24
arg.i64 s4, 32
arg.i64 s5, 40
load.i64 v0, s0
load.i32 v1, s1
const.i32 s6, 0
cmp.ne.i32 p0, v1, s6
const.i32 v2, -1
@p0 gatherb.fill.i32 v2, s2, v0, s5
store.i32 v2, s3
lane.i32 v3
@p0 scatterb.drop.i32 v3, s4, v0, s5
exit
"""


def scattered(table: Array, indices: Array, active: Array) -> Array:
    """The lanes in ascending order: the highest wins."""
    out: Array = table.copy()
    for lane in numpy.flatnonzero(active & (indices >= 0) & (indices < COUNT)):
        out[indices[lane]] = lane
    return out


@pytest.mark.check("gate0.instruction.bounded", obligations=["G0", "R1"], kind="focused test")
def test_bounded(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A masked lane, or one whose index is out of bounds, reads or writes memory all the same."""
    generator = numpy.random.default_rng(SEED)
    indices = generator.integers(-COUNT, 2 * COUNT, LANES)
    indices[:8] = [0, COUNT - 1, COUNT, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    mask = generator.integers(0, 2, LANES, dtype=numpy.int32)
    mask[:8] = 1
    active, inside = mask != 0, (indices >= 0) & (indices < COUNT)
    table = generator.integers(0, 2**31, COUNT, dtype=numpy.int32)
    # What is scattered into has something behind it that has to stay.
    target = generator.integers(2**20, 2**31, 2 * COUNT, dtype=numpy.int32)
    room = numpy.zeros(LANES, numpy.int32)
    got, changed = run(
        runtime, BOUNDED, [indices, mask, table], [room, target], extra=[COUNT], blocks=1
    )
    within = numpy.where(inside, table[numpy.where(inside, indices, 0)], 0)
    expected = numpy.where(active, within, -1).astype(numpy.int32)
    wrong = {
        "gather": different(got, expected, indices, mask),
        "scatter": different(changed, scattered(target, indices, active)),
    }
    counts = {"masked": int((~active).sum()), "outside": int((active & ~inside).sum())}
    detail(seed=SEED, lanes=LANES, **counts, mismatching=wrong)
    print(f"{LANES:,} lanes: {counts}")
    assert not any(wrong.values())


# With `fault`, the first lane whose index is out of bounds is told.
FAULTS = """
import struct, emu_runtime
from emu_runtime.errors import OutOfBoundsError
device = emu_runtime.Device(0)
program = '''
.program outside
.lanes 64
.args 16
arg.i64 s0, 0
arg.i64 s1, 8
lane.i64 v0
lane.i32 v1
scatterb.fault.i32 v1, s0, v0, s1
exit
'''
table = device.alloc(4 * 64)
emu_runtime.Module(0, program).launch((1, 1, 1), struct.pack("<qq", table, 40))
try:
    device.synchronize()
except OutOfBoundsError as error:
    print(error.program, error.cause)
"""


@pytest.mark.check(
    "gate0.instruction.out_of_bounds", obligations=["G0", "Q8", "R1"], kind="focused test"
)
def test_out_of_bounds(node: Node) -> None:
    """An index out of bounds goes unnoticed, or the error does not say which lane had which."""
    done = run_python(FAULTS, env=node.env)
    assert done.status == 0, done.told
    assert done.stdout.startswith("outside "), done.told
    assert "lane 40: expected an index from 0 to 39, got 40" in done.stdout, done.told
