"""Loads and stores: addressing, masks, and what a bad access gives."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from machine import (
    BASES,
    MISALIGNED,
    OUT_OF_BOUNDS,
    PAGE_FAULT,
    PAGE_SHIFT,
    READ,
    WRITE,
    Fault,
    Machine,
    Memory,
)
from programs import DTYPES, ISA, OPS, random_values

PAGE = 1 << PAGE_SHIFT


def run(machine: Machine, memory: Memory, lines: list[str], *args: int) -> Fault | None:
    head = [".lanes 256", f".args {8 * len(args)}"]
    head += [f"arg.i64 s{i}, {8 * i}" for i in range(len(args))]
    binary = machine.assemble("\n".join([*head, *lines, "exit"]))
    return machine.run(binary, memory, struct.pack(f"<{len(args)}q", *args))[1]


@pytest.mark.parametrize("type_", OPS["loads"]["types"])
@pytest.mark.parametrize("step", [-3, 0, 1, 5])
def test_strided(machine: Machine, type_: str, step: int) -> None:
    memory, size = Memory(), DTYPES[type_].itemsize
    a = random_values(type_, 3000, 51)
    source, target = memory.place(a), memory.place(np.zeros(3000, DTYPES[type_]))
    first = 1000
    lines = [f"loads.{type_} v0, s0, s1", f"stores.{type_} v0, s2, s1"]
    args = (source + first * size, step * size, target + first * size)
    assert run(machine, memory, lines, *args) is None
    expected = np.zeros(3000, DTYPES[type_])
    for lane in range(256):  # where lanes collide, the highest wins
        expected[first + step * lane] = a[first + step * lane]
    assert memory.read(target, 3000, DTYPES[type_]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("type_", OPS["gather"]["types"])
@pytest.mark.parametrize("mask", ["", "@p1 ", "@!p1 "])
def test_gather_and_scatter(machine: Machine, type_: str, mask: str) -> None:
    memory, size = Memory(), DTYPES[type_].itemsize
    a, start = random_values(type_, 500, 52), random_values(type_, 256, 53)
    index = np.random.default_rng(5).integers(0, 500, 256)
    places = [
        memory.place(x)
        for x in (
            a,
            index * size,
            start,
            np.zeros(256, DTYPES[type_]),
            np.zeros(500, DTYPES[type_]),
        )
    ]
    lines = ["load.i64 v1, s1", f"load.{type_} v0, s2", "lane.i32 v2", "const.i32 v3, 3"]
    lines += ["rem.i32 v2, v2, v3", "const.i32 s9, 0", "cmp.eq.i32 p1, v2, s9"]
    lines += [
        f"{mask}gather.{type_} v0, s0, v1",
        f"store.{type_} v0, s3",
        f"{mask}scatter.{type_} v0, s4, v1",
    ]
    assert run(machine, memory, lines, *places) is None
    third = np.arange(256) % 3 == 0
    active = third if mask == "@p1 " else ~third if mask else np.full(256, True)
    loaded = np.where(active, a[index], start)
    assert memory.read(places[3], 256, DTYPES[type_]).tobytes() == loaded.tobytes()
    scattered = np.zeros(500, DTYPES[type_])
    for lane in np.flatnonzero(active):
        scattered[index[lane]] = loaded[lane]
    assert memory.read(places[4], 500, DTYPES[type_]).tobytes() == scattered.tobytes()


@pytest.mark.parametrize("type_", OPS["load"]["types"])
def test_contiguous_copies_all_bits(machine: Machine, type_: str) -> None:
    size = ISA["types"][type_]["bytes"]
    memory = Memory()
    raw = np.random.default_rng(6).integers(0, 256, 256 * size, dtype=np.uint8)
    source, target = memory.place(raw), memory.place(np.zeros(256 * size + 8, np.uint8))
    lines = ["const.i64 s2, 201", "setvl s2, s2", f"load.{type_} v0, s0", f"store.{type_} v0, s1"]
    assert run(machine, memory, lines, source, target) is None
    got = memory.read(target, 256 * size, np.uint8)
    assert (got[: 201 * size] == raw[: 201 * size]).all()
    assert (got[201 * size :] == 0).all()


@pytest.mark.parametrize("type_", OPS["sload"]["types"])
def test_uniform_loads_extend(machine: Machine, type_: str) -> None:
    memory, dtype = Memory(), DTYPES[type_]
    raw = np.full(dtype.itemsize, 0xF1, np.uint8)
    source, target = memory.place(raw), memory.place(np.zeros(1, np.int64))
    assert (
        run(machine, memory, [f"sload.{type_} s2, s0", "sstore.i64 s2, s1"], source, target) is None
    )
    value = (
        int(raw.view(dtype)[0]) if dtype.kind in "iu" else int.from_bytes(raw.tobytes(), "little")
    )
    assert int(memory.read(target, 1, np.uint64)[0]) == value % (1 << 64)


ACCESSES = {
    "load.f32 v0, s0": READ,
    "const.f32 v0, 0\nstore.f32 v0, s0": WRITE,
    "const.i64 s1, 4\nloads.f32 v0, s0, s1": READ,
    "const.f32 v0, 0\nconst.i64 s1, 4\nstores.f32 v0, s0, s1": WRITE,
    "lane.i64 v1\nconst.i64 s1, 4\nmul.i64 v1, v1, s1\ngather.f32 v0, s0, v1": READ,
    "const.f32 v0, 0\nlane.i64 v1\nconst.i64 s1, 4\nmul.i64 v1, v1, s1\n"
    "scatter.f32 v0, s0, v1": WRITE,
    # 128 rows of two halves of 512 bytes: the second load reaches the last bytes
    "const.i64 s3, 4\nconst.i64 s1, 512\nconst.i64 s4, 64\nconst.i64 s5, 2\n"
    "mload.f32 m0, s0, s1, s5, s4": READ,
}


@pytest.mark.parametrize("text", ACCESSES)
@pytest.mark.parametrize("where", ["below", "null", "end", "past the end", "wrapping", "hole"])
@pytest.mark.parametrize("base", BASES)
def test_page_faults_name_the_first_bad_address(
    machine: Machine, text: str, where: str, base: int
) -> None:
    """256 elements of 4 bytes, the last 512 bytes of which may not be accessed."""
    memory = Memory(pages=8, base=base)
    memory.pages[4] = 0
    bad = {
        "below": (base - 512) % (1 << 64),
        "null": base,
        "end": base + 8 * PAGE,
        "past the end": base + (1 << 50),
        "wrapping": (1 << 64) - 512,
        "hole": base + 4 * PAGE,
    }[where]
    start = bad - 512 if where in ("end", "hole") else bad
    signed = start - (1 << 64) if start >= 1 << 63 else start
    fault = run(machine, memory, text.split("\n"), signed)
    assert fault is not None and fault.status == PAGE_FAULT
    assert fault.address == bad
    assert (
        f"{bad:#x}" in fault.cause
        and ("reading" if ACCESSES[text] == READ else "writing") in fault.cause
    )


@pytest.mark.parametrize("text", ACCESSES)
@pytest.mark.parametrize("allowed", [READ, WRITE])
def test_permissions_are_apart(machine: Machine, text: str, allowed: int) -> None:
    memory = Memory(pages=8)
    memory.pages[3] = allowed
    fault = run(machine, memory, text.split("\n"), memory.base + 3 * PAGE)
    assert (fault is None) == (allowed == ACCESSES[text])
    memory.pages[3] = READ | WRITE
    fault = run(machine, memory, text.split("\n"), memory.base + 3 * PAGE + 2)
    assert fault is not None and fault.status == MISALIGNED


def test_lanes_past_the_vector_length_touch_nothing(machine: Machine) -> None:
    memory = Memory(pages=8)
    memory.pages[4] = 0
    at = memory.base + 4 * PAGE - 40
    lines = ["const.i64 s1, 10", "setvl s1, s1", "load.f32 v0, s0", "store.f32 v0, s0"]
    assert run(machine, memory, lines, at) is None
    lines[0] = "const.i64 s1, 11"
    assert run(machine, memory, lines, at) is not None
    lines[0] = "const.i64 s1, 0"
    assert run(machine, memory, lines, 0) is None


def test_masked_lanes_touch_nothing(machine: Machine) -> None:
    memory = Memory(pages=8)
    lines = ["lane.i64 v1", "const.i64 s1, 100", "cmp.eq.i64 p0, v1, s1", "const.f32 v0, 0"]
    lines += ["const.i64 s2, 655", "mul.i64 v1, v1, s2", "const.i64 s3, 4", "mul.i64 v1, v1, s3"]
    good = [*lines, "@p0 gather.f32 v0, s0, v1"]
    assert run(machine, memory, good, memory.base) is None  # lane 100: page 3, lane 0: null
    fault = run(machine, memory, [*lines, "@!p0 gather.f32 v0, s0, v1"], memory.base)
    assert fault is not None and "lane 0:" in fault.cause and fault.address == memory.base


def test_a_register_never_shows_what_another_program_left(machine: Machine) -> None:
    memory = Memory()
    target = memory.place(np.ones(256, np.int64))
    assert run(machine, memory, ["const.i64 v0, -1", "const.i64 v1, -1"]) is None
    lines = [
        "const.i64 s1, 1",
        "setvl s1, s1",
        "const.i64 v0, 5",
        "const.i64 s1, 256",
        "setvl s1, s1",
        "store.i64 v0, s0",
    ]
    assert run(machine, memory, lines, target) is None
    assert memory.read(target, 256, np.int64).tolist() == [5] + [0] * 255


def bounded(
    machine: Machine, line: str, type_: str, index: list[int], count: int
) -> tuple[Fault | None, list[int], list[int]]:
    """The fault, then v0 and what is at s0; before the line they are 100 + lane and 0, 1, .."""
    memory, lanes = Memory(), len(index)
    kind = DTYPES[type_]
    elements = np.arange(10).astype(kind)
    start = (100 + np.arange(lanes)).astype(kind)
    places = [memory.place(x) for x in (elements, np.array(index, np.int64), start)]
    lines = [
        "setvl s4, s4",
        "load.i64 v1, s1",
        f"load.{type_} v0, s2",
        line,
        f"store.{type_} v0, s2",
    ]
    fault = run(machine, memory, lines, *places, count, lanes)
    register, stored = memory.read(places[2], lanes, kind), memory.read(places[0], 10, kind)
    return fault, [int(x) for x in register], [int(x) for x in stored]


@pytest.mark.parametrize("type_", ["i32", "i64", "u8", "f32", "f16", "f8e5m2"])
def test_an_index_outside_gives_zero_or_stores_nothing(machine: Machine, type_: str) -> None:
    index = [3, -1, 0, 9, 10, 2, 1 << 62, -(1 << 63)]
    fault, got, _ = bounded(machine, f"gatherb.fill.{type_} v0, s0, v1, s3", type_, index, 10)
    assert fault is None and got == [3, 0, 0, int(DTYPES[type_].type(9)), 0, 2, 0, 0]
    start = [int(DTYPES[type_].type(100 + lane)) for lane in range(8)]
    fault, _, elements = bounded(machine, f"scatterb.drop.{type_} v0, s0, v1, s3", type_, index, 10)
    wanted = [int(DTYPES[type_].type(i)) for i in range(10)]
    wanted[3], wanted[0], wanted[9], wanted[2] = start[0], start[2], start[3], start[5]
    assert fault is None and elements == wanted


@pytest.mark.parametrize(
    "line", ["gatherb.fault.i32 v0, s0, v1, s3", "scatterb.fault.i32 v0, s0, v1, s3"]
)
@pytest.mark.parametrize(("bad", "count"), [(10, 10), (-1, 10), (5, 5), (0, 0), (1, -4)])
def test_an_index_outside_faults_with_lane_and_index(
    machine: Machine, line: str, bad: int, count: int
) -> None:
    index = [min(1, max(count - 1, 0))] * 5 if count > 0 else [bad] * 5
    index[2] = bad
    fault, _, elements = bounded(machine, line, "i32", index, count)
    assert fault is not None and fault.status == OUT_OF_BOUNDS
    lane = 2 if count > 0 else 0
    assert f"lane {lane}: expected an index from 0 to {count - 1}, got {bad}" in fault.cause
    assert elements == list(range(10))  # nothing was stored before it


def test_masked_lanes_may_have_any_index(machine: Machine) -> None:
    lines = "lane.i64 v2\nconst.i64 s5, 2\ncmp.ne.i64 p0, v2, s5\n"
    fault, got, _ = bounded(
        machine, lines + "@p0 gatherb.fault.i32 v0, s0, v1, s3", "i32", [4, 5, 99, 6], 10
    )
    assert fault is None and got == [4, 5, 102, 6]
    fault, got, _ = bounded(
        machine, lines + "@!p0 gatherb.fault.i32 v0, s0, v1, s3", "i32", [4, 5, 99, 6], 10
    )
    assert fault is not None and "lane 2" in fault.cause


def test_an_index_inside_may_still_meet_a_page_that_is_not_there(machine: Machine) -> None:
    fault, _, _ = bounded(machine, "gatherb.fault.i32 v0, s0, v1, s3", "i32", [0, 1 << 40], 1 << 50)
    assert fault is not None and fault.status == PAGE_FAULT and "lane 1:" in fault.cause


def test_indices_are_read_before_the_register_is_written(machine: Machine) -> None:
    fault, _, _ = bounded(
        machine, "gatherb.fill.i64 v1, s0, v1, s3\nmov.i64 v0, v1", "i64", [9, 8, 7, 11], 10
    )
    assert fault is None
    _, got, _ = bounded(
        machine, "gatherb.fill.i64 v1, s0, v1, s3\nmov.i64 v0, v1", "i64", [9, 8, 7, 11], 10
    )
    assert got == [9, 8, 7, 0]
