"""Bits are the same on every host instruction set and for every number of threads."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from machine import BASELINE, Machine
from programs import DTYPES, OPS, Array, apply, edges, pairs, random_values

ARITHMETIC = [
    name
    for name, op in OPS.items()
    if op["operands"][:1] == ["dvs"] and name not in ("const", "cvt")
]


def variants() -> list[tuple[str, str, str]]:
    """(instruction, type of its operands, type of its result)."""
    out = []
    for name in ARITHMETIC:
        modes = [f".{m}" for m in OPS[name].get("modes", [])] or [""]
        out += [(f"{name}{m}.{t}", t, t) for m, t in itertools.product(modes, OPS[name]["types"])]
    both = itertools.product(OPS["cvt"]["modes"], DTYPES, DTYPES)
    return out + [(f"cvt.{mode}.{to}.{source}", source, to) for mode, to, source in both]


def inputs(name: str, type_: str) -> list[tuple[str, Array]]:
    operands = len(OPS[name.split(".")[0]]["operands"]) - 1
    if operands == 1:
        return [(type_, np.concatenate([edges(type_), random_values(type_, 5001, 61)]))]
    a, b = pairs(type_, 62)
    return [(type_, a), (type_, b), (type_, b[::-1].copy())][:operands]


@pytest.mark.parametrize(("name", "type_", "out"), variants())
def test_levels_and_threads_agree(machine: Machine, name: str, type_: str, out: str) -> None:
    arrays = inputs(name, type_)
    expected = apply(machine, name, arrays, out, level=BASELINE).tobytes()
    for level in range(1, machine.best_level() + 1):
        assert apply(machine, name, arrays, out, level=level).tobytes() == expected, level
    assert apply(machine, name, arrays, out, threads=3).tobytes() == expected


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
