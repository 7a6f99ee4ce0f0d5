"""Loops, skips, grids, budgets and ticks, none of which depends on the number of threads."""

from __future__ import annotations

import math
import struct
import threading
import time
from ctypes import c_bool

import numpy as np
import pytest
from machine import (
    BASE,
    BUDGET,
    CONTEXT_LOST,
    INVALID_ARGUMENT,
    LAUNCH_TIMEOUT,
    PAGE_FAULT,
    PAGE_SHIFT,
    Cost,
    Fault,
    Machine,
    Memory,
)
from programs import COSTS

EMPTY = ".lanes 64\nexit"


def uniform(machine: Machine, lines: list[str], *values: int) -> int:
    """s0 after `lines`, which find `values` in s1, s2, ..."""
    memory = Memory()
    at = memory.place(np.zeros(1, np.int64))
    head = [".lanes 64", f".args {8 * (len(values) + 1)}", f"arg.i64 s31, {8 * len(values)}"]
    head += [f"arg.i64 s{i + 1}, {8 * i}" for i in range(len(values))]
    binary = machine.assemble("\n".join([*head, *lines, "sstore.i64 s0, s31", "exit"]))
    _, fault = machine.run(binary, memory, struct.pack(f"<{len(values) + 1}q", *values, at))
    assert fault is None, fault
    return int(memory.read(at, 1, np.int64)[0])


@pytest.mark.parametrize(("outer", "inner"), [(0, 5), (5, 0), (-3, 2), (4, 7), (1, 1), (3, -1)])
def test_loops_nest(machine: Machine, outer: int, inner: int) -> None:
    body = [
        "const.i64 s9, 1",
        "loop s3, s1",
        "loop s4, s2",
        "mul.i64 s5, s3, s4",
        "add.i64 s5, s5, s9",
    ]
    body += ["add.i64 s0, s0, s5", "end", "end"]
    expected = sum(i * j + 1 for i in range(outer) for j in range(inner))
    assert uniform(machine, body, outer, inner) == expected
    assert uniform(machine, ["loop s0, s1", "end"], outer) == max(outer, 0)
    assert uniform(machine, ["mov.i64 s0, s1", "loop s0, s0", "end"], outer) == max(outer, 0)


def test_depth_of_eight_counts_right(machine: Machine) -> None:
    body = [
        "const.i64 s9, 1",
        *(f"loop s{10 + i}, s1" for i in range(8)),
        "add.i64 s0, s0, s9",
        *["end"] * 8,
    ]
    assert uniform(machine, body, 3) == 3**8


@pytest.mark.parametrize(("value", "expected"), [(0, 1), (5, 2), (1 << 40, 2), (-1, 2)])
def test_skip(machine: Machine, value: int, expected: int) -> None:
    body = ["const.i64 s0, 1", "skipz s1, over", "const.i64 s0, 2", "over:"]
    assert uniform(machine, body, value) == expected


def test_skip_to_the_end_of_a_loop_goes_on_with_the_next_turn(machine: Machine) -> None:
    body = [
        "const.i64 s8, 2",
        "const.i64 s9, 1",
        "loop s3, s1",
        "rem.i64 s4, s3, s8",
        "skipz s4, next",
    ]
    body += ["add.i64 s0, s0, s9", "next: end"]
    assert uniform(machine, body, 7) == 3


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("add.i32 s0, s1, s2", (0x7FFFFFFF, 1), -(1 << 31)),
        ("add.i8 s0, s1, s2", (127, 1), -128),
        ("add.u8 s0, s1, s2", (255, 3), 2),
        ("mul.i16 s0, s1, s2", (0x4000, 2), -0x8000),
        ("const.i8 s0, -1", (), -1),
        ("const.u8 s0, 255", (), 255),
        ("const.f32 s0, -2.0", (), 0xC0000000),
        ("const.bf16 s0, -2.0", (), 0xC000),
        ("cmp.lt.i64 s0, s1, s2", (-5, 3), 1),
        ("cmp.gt.u8 s0, s1, s2", (-5, 3), 1),
        ("cvt.i64.i32 s0, s1", (0xFFFFFFFF,), -1),
        ("blocks s0, 1", (), 1),
        ("setvl s0, s1", (-4,), 0),
        ("setvl s0, s1", (1000,), 64),
    ],
)
def test_uniform_registers(
    machine: Machine, text: str, values: tuple[int, ...], expected: int
) -> None:
    assert uniform(machine, [text], *values) == expected


MARK = """
.program mark .lanes 64 .args 8
arg.i64 s0, 0
block s1, 0
block s2, 1
block s3, 2
blocks s4, 0
blocks s5, 1
mul.i64 s6, s3, s5
add.i64 s6, s6, s2
mul.i64 s6, s6, s4
add.i64 s6, s6, s1
const.i64 s7, 8
mul.i64 s7, s6, s7
add.i64 s0, s0, s7
loop s8, s6
end
sload.i64 s9, s0
const.i64 s10, 1000
add.i64 s9, s9, s10
add.i64 s9, s9, s6
sstore.i64 s9, s0
exit
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (3, 5, 4), (400, 3, 1)])
def test_each_block_runs_once(machine: Machine, grid: tuple[int, int, int], threads: int) -> None:
    blocks = math.prod(grid)
    memory = Memory()
    at = memory.place(np.zeros(blocks, np.int64))
    args = struct.pack("<q", at)
    cost, fault = machine.run(machine.assemble(MARK), memory, args, grid=grid, threads=threads)
    assert fault is None
    assert (memory.read(at, blocks, np.int64) == np.arange(blocks) + 1000).all()
    alone, _ = machine.run(machine.assemble(MARK), memory, args, grid=grid)
    assert cost == alone


# Blocks take long enough to be handed out one by one. Arguments: address, and how many times as
# long block 100 and those after it take.
UNEVEN = """
.lanes 64 .args 24
arg.i64 s0, 0
arg.i64 s1, 8
arg.i64 s2, 16
block s3, 0
const.i64 s4, 100
cmp.eq.i64 s5, s3, s4
mul.i64 s5, s5, s1
cmp.gt.i64 s6, s3, s4
mul.i64 s6, s6, s2
add.i64 s5, s5, s6
const.i64 s6, 1
add.i64 s5, s5, s6
const.i64 s6, 20000
mul.i64 s5, s5, s6
loop s7, s5
end
const.i64 s8, 8
mul.i64 s8, s8, s3
add.i64 s0, s0, s8
sstore.i64 s3, s0
exit
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("slowness", [(5, 0), (0, 5)])
def test_the_lowest_fault_is_told(
    machine: Machine, threads: int, slowness: tuple[int, int]
) -> None:
    """Blocks from 100 on run into a page that isn't there; the lowest comes last, or first."""
    memory = Memory(pages=8)
    memory.pages[3] = 0
    bad = memory.base + (3 << PAGE_SHIFT)
    args = struct.pack("<3q", bad - 100 * 8, *slowness)
    binary = machine.assemble(UNEVEN)
    for _ in range(30):  # whether blocks overlap is up to the host
        _, fault = machine.run(binary, memory, args, grid=(120, 1, 1), threads=threads)
        assert fault is not None and fault.status == PAGE_FAULT
        assert fault.address == bad and "block (100, 0, 0)" in fault.cause


FOREVER = ".lanes 64\nconst.i64 s1, 0x7fffffffffffffff\nloop s0, s1\nend\nexit"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_program_ends_within_its_budget(machine: Machine, threads: int) -> None:
    memory = Memory(pages=2)
    for grid in ((1, 1, 1), (1 << 20, 1 << 10, 1)):
        _, fault = machine.run(
            machine.assemble(FOREVER), memory, grid=grid, budget=100_000, threads=threads
        )
        assert fault is not None and fault.status == BUDGET
    short = ".lanes 64\nexit"
    _, fault = machine.run(
        machine.assemble(short), memory, grid=(1 << 20, 1 << 19, 1), budget=100_000, threads=threads
    )
    assert fault is not None and fault.status == BUDGET


ENDLESS = {
    "one loop": (FOREVER, (1, 1, 1)),
    "many blocks": (".lanes 64\nexit", (1 << 20, 1 << 20, 1)),
    "no loop": (".lanes 4096\nconst.f64 v0, 1\n" + "exp.f64 v0, v0\n" * 60_000 + "exit", (8, 1, 1)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_launch_ends_at_its_deadline(machine: Machine, name: str, threads: int) -> None:
    text, grid = ENDLESS[name]
    memory = Memory(pages=2)
    binary = machine.assemble(text)
    start = time.monotonic()
    _, fault = machine.run(binary, memory, grid=grid, budget=1 << 62, seconds=0.1, threads=threads)
    assert fault is not None and fault.status == LAUNCH_TIMEOUT
    assert 0.1 <= time.monotonic() - start < 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_launch_is_cancelled(machine: Machine, name: str, threads: int) -> None:
    text, grid = ENDLESS[name]
    memory, cancelled = Memory(pages=2), c_bool(False)
    binary = machine.assemble(text)
    timer = threading.Timer(0.1, setattr, (cancelled, "value", True))
    start = time.monotonic()
    timer.start()
    _, fault = machine.run(
        binary, memory, grid=grid, budget=1 << 62, cancelled=cancelled, threads=threads
    )
    assert fault is not None and fault.status == CONTEXT_LOST
    assert 0.1 <= time.monotonic() - start < 2


def test_the_budget_is_exact(machine: Machine) -> None:
    memory = Memory(pages=2)
    binary = machine.assemble(EMPTY)
    cost, _ = machine.run(binary, memory, grid=(20, 1, 1))
    assert machine.run(binary, memory, grid=(20, 1, 1), budget=cost.ticks)[1] is None
    fault = machine.run(binary, memory, grid=(20, 1, 1), budget=cost.ticks - 1)[1]
    assert fault is not None and fault.status == BUDGET


def test_bad_launches(machine: Machine) -> None:
    memory = Memory(pages=2)
    binary = machine.assemble(".lanes 64\n.args 8\nexit")
    args = bytes(8)
    told: list[Fault | None] = [
        machine.run(binary, memory, args, grid=(4, 0, 1))[1],
        machine.run(binary, memory, args, grid=(1 << 31, 1 << 31, 1))[1],
        machine.run(binary, memory, bytes(7))[1],
    ]
    causes = [
        fault.cause for fault in told if fault is not None and fault.status == INVALID_ARGUMENT
    ]
    assert len(causes) == 3
    assert (
        "axis 1" in causes[0]
        and "2^40" in causes[1]
        and "8 bytes" in causes[2]
        and "got 7" in causes[2]
    )


def ticks(machine: Machine, lines: list[str], lanes: int = 256) -> Cost:
    """Cost of a program without its launch and `exit`."""
    memory = Memory()
    binary = machine.assemble("\n".join([f".lanes {lanes}", *lines, "exit"]))
    cost, fault = machine.run(binary, memory)
    assert fault is None
    scalar = COSTS["cost"]["scalar"]["fixed"]
    return Cost(
        cost.ticks - COSTS["cost"]["launch"] - scalar,
        cost.matrix_ticks,
        cost.vector_ticks - scalar,
        cost.memory_ticks,
    )


def expected_ticks(name: str, lanes: int, element: int, *, f64: bool = False) -> int:
    """The rule of machine.toml."""
    rule, cost = COSTS["cost"][name], COSTS["cost"]
    weight = element / 4 if name == "memory" else max(element, 4) / 4
    if f64 and name in cost["f64_slow_in"]:
        weight *= cost["f64_slow"]
    more = math.ceil(lanes * rule["per_lane"] * weight / COSTS["compute"]["lanes_per_tick"])
    return int(rule["fixed"] + more)


@pytest.mark.parametrize(
    ("text", "name", "element", "f64"),
    [
        ("add.f32 v1, v0, v0", "alu", 4, False),
        ("add.f64 v1, v0, v0", "alu", 8, True),
        ("add.i64 v1, v0, v0", "alu", 8, False),
        ("add.u8 v1, v0, v0", "alu", 1, False),
        ("div.f32 v1, v0, v0", "divide", 4, False),
        ("exp.f64 v1, v0", "transcendental", 8, True),
        ("cvt.f32.f64 v1, v0", "convert", 8, True),
        ("reduce.sum.f32 s1, v0", "reduce", 4, False),
        ("mov.i16 v1, v0", "move", 2, False),
    ],
)
@pytest.mark.parametrize("lanes", [256, 100])
def test_ticks_of_vector_instructions(
    machine: Machine, text: str, name: str, element: int, f64: bool, lanes: int
) -> None:
    type_ = text.split()[0].split(".")[-1]
    base = [f"const.i64 s1, {lanes}", "setvl s1, s1", f"const.{type_} v0, 1"]
    more = ticks(machine, [*base, text]).ticks - ticks(machine, base).ticks
    assert more == expected_ticks(name, lanes, element, f64=f64)


def test_ticks_of_units(machine: Machine) -> None:
    memory = COSTS["cost"]["memory"]["fixed"]
    address = [f"const.i64 s1, {BASE + 65536}", "const.i64 s2, 128"]
    got = ticks(machine, [*address, "load.f16 v0, s1"])
    assert got.memory_ticks == memory + 256 * 2 * 2 // 4 // 64
    matrix = COSTS["cost"]["matrix"]
    for type_, weight in (("f32", 1), ("f64", 8)):
        tiles = [f"mzero.{type_} m{i}, s2, s2" for i in range(3)]
        got = ticks(machine, [*address, *tiles, f"mma.{type_} m0, m1, m2"])
        assert got.matrix_ticks == matrix["fixed"] + weight * 128**3 // matrix["fma_per_tick"]


def test_cores_share_the_blocks(machine: Machine) -> None:
    memory, cores = Memory(pages=2), COSTS["compute"]["cores"]
    launch, one = COSTS["cost"]["launch"], COSTS["cost"]["scalar"]["fixed"]
    for blocks in (1, cores, cores + 1, 10 * cores):
        cost, _ = machine.run(machine.assemble(EMPTY), memory, grid=(blocks, 1, 1))
        assert cost.ticks == launch + -(-blocks // cores) * one
        assert cost.vector_ticks == blocks * one


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (11, 1), (100, 1), (2000, 3)])
def test_the_busiest_core_s_units_are_the_launch(
    machine: Machine, blocks: int, threads: int
) -> None:
    """Blocks that differ: block i loads i times. What the launch took is its busiest core's."""
    lines = [
        f"const.i64 s1, {BASE + 65536}",
        "block s0, 0",
        "loop s2, s0",
        "load.f32 v0, s1",
        "end",
    ]
    binary = machine.assemble("\n".join([".lanes 64", *lines, "exit"]))
    cost, fault = machine.run(binary, Memory(), grid=(blocks, 1, 1), threads=threads)
    assert fault is None
    cores, rule = COSTS["compute"]["cores"], COSTS["cost"]["memory"]
    loads = [sum(range(core, blocks, cores)) for core in range(cores)]
    one = rule["fixed"] + rule["per_lane"]
    matrix, vector, memory = cost.busiest
    assert matrix == 0 and memory == max(loads) * one
    assert cost.ticks == COSTS["cost"]["launch"] + vector + memory
    assert cost.memory_ticks == sum(loads) * one
    assert cost.memory_bytes == sum(loads) * 64 * 4


def test_cleared_registers_take_time(machine: Machine) -> None:
    """A block that starts with cleared registers does as much as one that moves them."""
    memory, lanes = Memory(pages=2), 4096
    whole = [f".lanes {lanes}", "const.f64 v0, 1", "const.f64 v1, 1"]
    varying = [*whole[:2], "const.i64 s0, 4096", "setvl s0, s0", whole[2], "exit"]
    fixed = [whole[0], "const.i64 s0, 4096", "setvl s0, s0", *whole[1:], "exit"]
    ticks = [
        machine.run(machine.assemble("\n".join(text)), memory)[0].ticks for text in (varying, fixed)
    ]
    assert ticks[0] - ticks[1] >= 2 * lanes * 8 // COSTS["cost"]["clear_bytes_per_tick"]
