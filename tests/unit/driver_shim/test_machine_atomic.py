"""Atomics: what colliding lanes and blocks leave in memory and are given, and in which order."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from machine import MISALIGNED, PAGE_FAULT, PAGE_SHIFT, READ, WRITE, Cost, Fault, Machine, Memory
from programs import DTYPES, OPS, Array, assert_same

LANES, BLOCKS, CELLS = 64, 40, 7
THREADS = (1, 2, 5)

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "swap": lambda a, b: b,
}


class Case:
    """Blocks of lanes, each with a cell to change and a value; all cells are met many times."""

    def __init__(self, type_: str, seed: int = 1) -> None:
        generator = np.random.default_rng(seed)
        self.type_, self.size = type_, DTYPES[type_].itemsize
        count = LANES * BLOCKS
        self.cell = generator.integers(0, CELLS, count)
        if type_ == "f32":  # of many magnitudes, so that each order of adding rounds differently
            self.value: Array = (
                generator.normal(0, 1, count) * 10.0 ** generator.integers(-6, 6, count)
            ).astype(np.float32)
            self.start: Array = generator.normal(0, 1, CELLS).astype(np.float32)
        else:
            info = np.iinfo(DTYPES[type_])
            self.value = generator.integers(info.min, info.max, count, dtype=DTYPES[type_])
            self.start = generator.integers(info.min, info.max, CELLS, dtype=DTYPES[type_])

    def run(
        self, machine: Machine, lines: list[str], *, threads: int = 1, expected: Array | None = None
    ) -> tuple[Array, Array, Cost]:
        """Memory after it, what v0 held in each lane, and the cost.

        The lines find offsets in v1, values in v2 and `expected` in v3.
        """
        memory = Memory()
        arrays = [
            self.cell * self.size,
            self.value,
            expected if expected is not None else self.value,
        ]
        places = [memory.place(x) for x in (self.start, *arrays, np.zeros_like(self.value))]
        text = [f".lanes {LANES}", ".args 40", *(f"arg.i64 s{i}, {8 * i}" for i in range(5))]
        text += ["block s5, 0", f"const.i64 s6, {LANES}", "mul.i64 s5, s5, s6"]
        text += ["const.i64 s6, 8", "mul.i64 s6, s5, s6", "add.i64 s1, s1, s6", "load.i64 v1, s1"]
        text += [f"const.i64 s6, {self.size}", "mul.i64 s6, s5, s6"]
        text += [f"add.i64 s{i}, s{i}, s6" for i in (2, 3, 4)]
        text += [
            f"load.{self.type_} v2, s2",
            f"load.{self.type_} v3, s3",
            f"mov.{self.type_} v0, v2",
        ]
        text += [*lines, f"store.{self.type_} v0, s4", "exit"]
        binary = machine.assemble("\n".join(text))
        cost, fault = machine.run(
            binary, memory, struct.pack("<5q", *places), grid=(BLOCKS, 1, 1), threads=threads
        )
        assert fault is None, fault
        kind = self.value.dtype
        return (
            memory.read(places[0], CELLS, kind),
            memory.read(places[4], self.value.size, kind),
            cost,
        )

    def in_order(self, mode: str) -> tuple[Array, Array]:
        """Memory and what each lane was given, by ascending block and lane."""
        cells, given = self.start.copy(), np.zeros_like(self.value)
        with np.errstate(over="ignore"):
            for i in range(self.value.size):
                given[i] = cells[self.cell[i]]
                cells[self.cell[i]] = COMBINE[mode](given[i], self.value[i])
        return cells, given


@pytest.mark.parametrize("type_", OPS["red"]["types"])
@pytest.mark.parametrize("mode", OPS["red"]["modes"])
def test_red_is_the_same_in_any_order_of_blocks(machine: Machine, mode: str, type_: str) -> None:
    case = Case(type_)
    wanted, _ = case.in_order(mode)
    costs = set()
    for threads in THREADS:
        cells, _, cost = case.run(machine, [f"red.{mode}.{type_} v2, s0, v1"], threads=threads)
        assert_same(cells, wanted)
        costs.add(cost)
    assert len(costs) == 1


@pytest.mark.parametrize("type_", OPS["atom"]["types"])
@pytest.mark.parametrize("mode", OPS["atom"]["modes"])
def test_atom_acts_in_the_order_of_blocks_and_lanes(
    machine: Machine, mode: str, type_: str
) -> None:
    case = Case(type_)
    wanted, given = case.in_order(mode)
    costs = set()
    for threads in THREADS:
        cells, old, cost = case.run(
            machine, [f"atom.{mode}.{type_} v0, s0, v1, v2"], threads=threads
        )
        assert_same(cells, wanted)
        assert_same(old, given)
        costs.add(cost)
    assert len(costs) == 1


def test_the_order_of_a_float_sum_shows() -> None:
    """From last to first these values give other sums, so the test above sees the order."""
    case = Case("f32")
    forward, _ = case.in_order("add")
    case.cell, case.value = case.cell[::-1], case.value[::-1]
    assert (case.in_order("add")[0] != forward).any()


@pytest.mark.parametrize("type_", OPS["cas"]["types"])
def test_compare_and_swap(machine: Machine, type_: str) -> None:
    """Two lanes of three expect what their cell holds when their turn comes, the third another."""
    case = Case(type_)
    cells, given = case.start.copy(), np.zeros_like(case.value)
    expected = np.zeros_like(case.value)
    for i in range(case.value.size):
        given[i] = cells[case.cell[i]]
        expected[i] = given[i] if i % 3 else ~given[i]
        if i % 3:
            cells[case.cell[i]] = case.value[i]
    for threads in THREADS:
        got, old, _ = case.run(
            machine, [f"cas.{type_} v0, s0, v1, v3, v2"], threads=threads, expected=expected
        )
        assert_same(got, cells)
        assert_same(old, given)


def test_blocks_in_order_take_their_time_one_after_another(machine: Machine) -> None:
    """The same work without and with an ordered instruction: on all cores, and on one."""
    case = Case("i32")
    _, _, together = case.run(machine, ["red.add.i32 v2, s0, v1"])
    _, _, ordered = case.run(machine, ["atom.add.i32 v0, s0, v1, v2"])
    launch, cores = 2000, 8
    assert (ordered.ticks - launch) == cores * (together.ticks - launch)


@pytest.mark.parametrize("mask", ["@p0 ", "@!p0 "])
def test_masked_lanes_change_nothing_and_keep_their_register(machine: Machine, mask: str) -> None:
    case = Case("i32")
    odd = np.arange(LANES * BLOCKS) % 2 == 1
    active = odd if mask == "@p0 " else ~odd
    lines = ["lane.i32 v4", "const.i32 s7, 1", "and.i32 v4, v4, s7", "cmp.eq.i32 p0, v4, s7"]
    lines += [f"{mask}atom.add.i32 v0, s0, v1, v2"]
    cells, old, _ = case.run(machine, lines)
    wanted = case.start.copy()
    given = case.value.copy()
    with np.errstate(over="ignore"):
        for i in np.flatnonzero(active):
            given[i] = wanted[case.cell[i]]
            wanted[case.cell[i]] += case.value[i]
    assert_same(cells, wanted)
    assert_same(old, given)


def fault_of(machine: Machine, memory: Memory, lane_offset: int, line: str) -> Fault:
    """Lane 3 has the offset, the others the first element."""
    offsets = np.zeros(LANES, np.int64)
    offsets[3] = lane_offset
    base, at = memory.place(np.zeros(4, np.int64)), memory.place(offsets)
    lines = [f".lanes {LANES}", ".args 16", "arg.i64 s0, 0", "arg.i64 s1, 8", "load.i64 v1, s1"]
    lines += ["const.i32 v2, 1", "mov.i32 v0, v2", line, "exit"]
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, struct.pack("<qq", base, at))
    assert fault is not None
    return fault


@pytest.mark.parametrize(
    "line", ["red.add.i32 v2, s0, v1", "atom.swap.i32 v0, s0, v1, v2", "cas.i32 v0, s0, v1, v2, v2"]
)
def test_faults_name_the_lane(machine: Machine, line: str) -> None:
    fault = fault_of(machine, Memory(), 2, line)
    assert fault.status == MISALIGNED and "lane 3:" in fault.cause
    fault = fault_of(machine, Memory(), -(1 << 30), line)
    assert fault.status == PAGE_FAULT and "lane 3:" in fault.cause
    for permission, word in ((READ, "writing"), (WRITE, "reading")):
        memory = Memory()
        memory.pages[2] = permission
        fault = fault_of(machine, memory, 1 << PAGE_SHIFT, line)
        assert fault.status == PAGE_FAULT and f"mapped for {word}" in fault.cause
        assert "lane 3:" in fault.cause
