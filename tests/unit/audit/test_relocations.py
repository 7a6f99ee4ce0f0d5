"""Relocations of files that gcc links, beside another reader's; and tables that lie."""

from __future__ import annotations

import io

import pytest
from broken_wheels.compiler import ADD, CALLS, calling, library, put, stub
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from qualify.audit import elf, relocations
from qualify.audit.elf import Damaged
from qualify.audit.relocations import Relocations

GHOST = "libghost.so.1"
STORED = "int ghost(void); int (*stored)(void) = ghost; int call(void) { return ghost(); }\n"
PATCHED = (
    '__asm__(".text\\n.globl table\\ntable: .quad target\\n.globl target\\ntarget: ret\\n");\n'
)


def read(data: bytes) -> Relocations:
    return relocations.read(data, elf.read(data))


def rows(data: bytes, name: str) -> set[int]:
    section = ELFFile(io.BytesIO(data)).get_section_by_name(name)
    assert isinstance(section, RelocationSection)
    return {row["r_info_sym"] for row in section.iter_relocations()} - {0}


def test_symbols_are_those_of_another_reader() -> None:
    data = library(STORED, with_=((GHOST, stub(GHOST)),))
    found = read(data)
    assert found.data == rows(data, ".rela.dyn")
    assert found.calls == rows(data, ".rela.plt")
    (ghost,) = [u.index for u in elf.read(data).undefined if u.name == "ghost"]
    assert ghost in found.data


def test_a_call_alone_stores_nothing() -> None:
    data = calling(stub(GHOST), GHOST)
    (ghost,) = [u.index for u in elf.read(data).undefined if u.name == "ghost"]
    assert ghost in read(data).calls and ghost not in read(data).data


def test_of_text() -> None:
    data = library(PATCHED, "-Wl,-z,notext")
    at = read(data).text
    assert at is not None
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".rela.dyn")
    assert isinstance(section, RelocationSection)
    assert section["sh_offset"] <= at < section["sh_offset"] + section["sh_size"]
    assert read(library()).text is None


def test_of_indirect_functions() -> None:
    source = (
        "static int one(void) { return 1; }\nstatic int (*choose(void))(void) { return one; }\n"
        '%s int chosen(void) __attribute__((ifunc("choose")));\n'
        "int call(void) { return chosen(); }\n"
    )
    assert read(library(source % "static")).indirect is not None
    assert read(library(source % "")).indirect is not None
    assert read(library(CALLS)).indirect is None


def test_a_table_that_is_not_there() -> None:
    data = library()
    at = elf.read(data).dynamic
    while data[at] != relocations.RELA:
        at += 16
    with pytest.raises(Damaged, match="lies in no segment"):
        read(put(data, at + 8, "<Q", 0x7FFFFFFF0000))


def test_a_symbol_that_is_not_there() -> None:
    data = calling(stub(GHOST), GHOST)
    facts = elf.read(data)
    at = facts.place(facts.value(relocations.JMPREL) or 0)
    with pytest.raises(Damaged, match="past the end"):
        read(put(data, at + 8, "<Q", 0xFFFFFF << 32 | 7))


def test_a_count_of_relative_rows_that_is_too_large_hides_no_text_relocation() -> None:
    data = library(PATCHED, "-Wl,-z,notext")
    at = elf.read(data).dynamic
    while int.from_bytes(data[at : at + 8], "little") != relocations.RELACOUNT:
        at += 16
    assert read(put(data, at + 8, "<Q", 1 << 40)).text is not None


def test_an_object_file_has_none() -> None:
    assert read(put(library(ADD), 16, "<H", elf.RELOCATABLE)) == relocations.NONE


@pytest.mark.parametrize(
    ("ranges", "merged"),
    [
        ([], []),
        ([(4, 6), (1, 3)], [(1, 3), (4, 6)]),
        ([(1, 5), (2, 3), (4, 9), (9, 10)], [(1, 10)]),
    ],
)
def test_ranges_are_merged(ranges: list[tuple[int, int]], merged: list[tuple[int, int]]) -> None:
    assert relocations._merged(ranges) == merged
