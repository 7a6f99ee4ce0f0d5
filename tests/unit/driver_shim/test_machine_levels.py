"""Bits and device ticks are the same on every host instruction set and for every number of threads.

The programs are made from isa.toml: each operation in each of its modes and types, over blocks that
threads share.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from machine import BASELINE, Machine, Memory
from programs import DTYPES, OPS, edges, random_values

LANES, BLOCKS = 256, 24
THREADS = (2, 5)
STRIDE = LANES * 8  # bytes of a block in each array

# Programs of what isn't an operation on lanes. v1: the block's values of the type, v2: byte offsets
# of elements in its part, v3: indices from -2 to 90, s1: its input, s2: its output, s3: the output
# of all, s4: 7, s6: 0, s7: 64.
CONTROL = """
    blocks s5, 0
    setvl s6, s4
    lane.i64 v4
    loop s7, s4
    skipz s7, on
    add.i64 v4, v4, s5
    on: end
    arg.i64 s5, 0
    store.i64 v4, s2
"""
MEMORY = {
    "load": "load.{t} v5, s1\nstore.{t} v5, s2",
    "store": "store.{t} v1, s2",
    "loads": "const.i64 s5, {size}\nloads.{t} v5, s1, s5\nstore.{t} v5, s2",
    "stores": "const.i64 s5, {size}\nstores.{t} v1, s2, s5",
    "gather": "gather.{t} v5, s1, v2\nstore.{t} v5, s2",
    "scatter": "scatter.{t} v1, s2, v2",
    "gatherb": "const.i64 s5, 80\nmov.{t} v5, v1\n"
    "gatherb.fill.{t} v5, s1, v3, s5\nmov.{t} v6, v1\nconst.i64 s5, 91\ncmp.ge.i64 p0, v3, s6\n"
    "@p0 gatherb.fault.{t} v6, s1, v3, s5\nstore.{t} v5, s2\nscatter.{t} v6, s2, v2",
    "scatterb": "const.i64 s5, 80\nscatterb.drop.{t} v1, s2, v3, s5\nconst.i64 s5, 91\n"
    "cmp.ge.i64 p0, v3, s6\n@p0 scatterb.fault.{t} v1, s2, v3, s5",
    "sload": "sload.{t} s5, s1\nsstore.i64 s5, s2",
    "sstore": "sload.{t} s5, s1\nsstore.{t} s5, s2",
    "red": "red{mode}.{t} v1, s3, v2",
    "atom": "atom{mode}.{t} v5, s3, v2, v1\nstore.{t} v5, s2",
    "cas": "const.{t} v5, 0\ncas.{t} v6, s3, v2, v5, v1\nstore.{t} v6, s2",
}
TILES = {
    "mzero": "mzero.{t} m0, s4, s4\nmstore.{t} m0, s2, s7",
    "mload": "mload{mode}.{t} m0, s1, s7, s4, s4\nmstore.{t} m0, s2, s7",
    "mstore": "mload.{t} m0, s1, s7, s4, s4\nmstore{mode}.{t} m0, s2, s7",
    "mma": "mload.{t} m0, s1, s7, s4, s4\nmload.column.{t} m1, s1, s7, s4, s4\n"
    "mzero.{t} m2, s4, s4\n"
    "mma.{t} m2, m0, m1\nmma.{t} m2, m1, m1\nmstore.{t} m2, s2, s7",
    "mmaw": "mload.{t2} m0, s1, s7, s4, s4\nmload.column.{t2} m1, s1, s7, s4, s4\n"
    "mzero.{t} m2, s4, s4\n"
    "mmaw.{t}.{t2} m2, m0, m1\nmmaw.{t}.{t2} m2, m1, m1\nmstore.{t} m2, s2, s7",
    "mcvt": "mload.{t2} m0, s1, s7, s4, s4\nmcvt{mode}.{t}.{t2} m1, m0\nmstore.{t} m1, s2, s7",
}
TILES["mmai"] = TILES["mmaw"].replace("mmaw", "mmai")
CONTROLS = ("arg", "block", "blocks", "lane", "setvl", "loop", "end", "skipz", "exit")


def lane_texts(op: dict[str, Any], what: str, type_: str, type2: str) -> Iterator[str]:
    """The operation on vectors and, where it may be, on uniform registers."""
    vectors, uniforms = [], []
    before = []
    for slot, kind in enumerate(op["operands"]):
        base, _, reads = kind.partition(":")
        read = {"": type_, "type2": type2}.get(reads, reads)
        if base == "imm":
            vectors.append("3")
            uniforms.append("3")
        elif slot == 0:
            vectors.append("p1" if "p" in base else "v10" if "v" in base else "s10")
            uniforms.append("s10")
        elif "v" in base:
            before += [
                f"load.{read} v{10 + slot}, s{1 if slot < 2 else 8}",
                f"sload.{read} s{10 + slot}, s1",
            ]
            vectors.append(f"v{10 + slot}")
            uniforms.append(f"s{10 + slot}")
        elif base == "p":
            before += [
                f"cmp.gt.i64 p{1 + slot}, v3, s4"
                if slot == 1
                else f"cmp.lt.i64 p{1 + slot}, v2, v3"
            ]
            vectors.append(f"p{1 + slot}")
        else:
            before += [f"sload.{read} s{10 + slot}, s1"]
            vectors.append(f"s{10 + slot}")
    store = {
        "v": f"store.{type_} v10, s2",
        "p": "sel.i64 v9, p1, v2, v3\nstore.i64 v9, s2",
        "s": "sstore.i64 s10, s2",
    }
    yield "\n".join([*before, f"{what} " + ", ".join(vectors), store[vectors[0][0]]])
    if op["operands"][0] in ("dvs", "dps"):
        yield "\n".join([*before, f"{what} " + ", ".join(uniforms), store["s"]])


def texts(name: str) -> Iterator[tuple[str, str]]:
    """(type of the input, program) for each mode and type of the operation."""
    op = OPS[name]
    if name in CONTROLS:
        yield "i64", CONTROL
        return
    modes = [f".{m}" for m in op.get("modes", [])] or [""]
    for mode, type_, type2 in itertools.product(modes, op["types"], op.get("types2", ["-"])):
        source = type2 if type2 != "-" else type_ if type_ != "-" else "i64"
        if template := {**MEMORY, **TILES}.get(name):
            size = DTYPES[type_].itemsize
            yield source, template.format(t=type_, t2=type2, mode=mode, size=size)
            continue
        suffix = mode + "".join(f".{t}" for t in (type_, type2) if t != "-")
        for text in lane_texts(op, name + suffix, type_, type2):
            yield source, text


def program(type_: str, text: str) -> str:
    """The text after what it reads. Arguments: input, output, shared, offsets, indices, input."""
    lines = [
        f".lanes {LANES}",
        ".args 48",
        *(f"arg.i64 s{i}, {8 * i - 8}" for i in (1, 2, 3, 4, 5)),
    ]
    lines += ["arg.i64 s8, 40", "block s9, 0", f"const.i64 s10, {STRIDE}", "mul.i64 s9, s9, s10"]
    lines += [f"add.i64 s{i}, s{i}, s9" for i in (1, 2, 4, 5, 8)]
    lines += [f"load.{type_} v1, s1", "load.i64 v2, s4", "load.i64 v3, s5"]
    lines += ["const.i64 s4, 7", "const.i64 s6, 0", "const.i64 s7, 64", text, "exit"]
    return "\n".join(lines)


class Inputs:
    """The arrays that programs of one type read."""

    def __init__(self, type_: str) -> None:
        kind = DTYPES[type_]
        count = STRIDE * BLOCKS // kind.itemsize
        self.values = np.concatenate([edges(type_), random_values(type_, count, 61)])[:count]
        generator = np.random.default_rng(63)
        self.offsets = generator.integers(0, LANES, LANES * BLOCKS) * 8
        self.indices = generator.integers(-2, 91, LANES * BLOCKS)
        self.more = generator.permutation(self.values)

    def run(self, machine: Machine, binary: bytes, level: int, threads: int) -> tuple[bytes, Any]:
        memory = Memory(pages=8)
        out = np.zeros(STRIDE * BLOCKS, np.uint8)
        places = [
            memory.place(x)
            for x in (self.values, out, out[:STRIDE], self.offsets, self.indices, self.more)
        ]
        args = struct.pack("<6q", *places)
        cost, fault = machine.run(
            binary, memory, args, grid=(BLOCKS, 1, 1), level=level, threads=threads
        )
        assert fault is None, fault
        return memory.bytes.tobytes(), cost


@pytest.mark.parametrize("name", OPS)
def test_levels_and_threads_agree(machine: Machine, name: str) -> None:
    """Memory to the bit and ticks, for each way to run each program of the operation."""
    done = 0
    for type_, text in texts(name):
        inputs, binary = Inputs(type_), machine.assemble(program(type_, text))
        expected = inputs.run(machine, binary, BASELINE, 1)
        best = machine.best_level()
        for level, threads in [
            *((n, 1) for n in range(1, best + 1)),
            *((best, n) for n in THREADS),
        ]:
            assert inputs.run(machine, binary, level, threads) == expected, (text, level, threads)
        done += 1
    assert done > 0
    print(f"{name}: {done} programs")


@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_no_code_of_one_level_is_used_by_another(native: Path, level: str) -> None:
    """A kernel's object defines no function that the linker could give to other callers.

    An inline function compiled for AVX-512 and kept for all would end the process on an older host.
    """
    folder = native / "src" / "machine" / "CMakeFiles" / f"emu_kernels_{level}.dir" / "kernels"
    objects = list(folder.glob("*.o"))
    assert len(objects) >= 5
    shared = []
    for path in objects:
        with path.open("rb") as file:
            tables = [s for s in ELFFile(file).iter_sections() if isinstance(s, SymbolTableSection)]
            symbols = [s for table in tables for s in table.iter_symbols()]
        shared += [
            s.name
            for s in symbols
            if s["st_info"]["type"] == "STT_FUNC"
            and s["st_info"]["bind"] != "STB_LOCAL"
            and s["st_shndx"] != "SHN_UNDEF"
        ]
    assert shared
    assert [name for name in shared if level not in name] == []
