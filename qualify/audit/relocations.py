"""Facts of an ELF file's relocations: what a loader writes into it, and for which symbols.

Of those that name a symbol or an address; the compact table of relative ones (DT_RELR) has
neither. Tables are gone through as columns, because torch has a million rows.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import compress

import msgspec

from qualify.audit.elf import (
    LOAD,
    PROGRAM,
    RELOCATABLE,
    SYMTAB,
    WRITE,
    Bytes,
    Damaged,
    Elf,
    Reader,
)

RELA, RELASZ, REL, RELSZ, PLTRELSZ, PLTREL, JMPREL = 7, 8, 17, 18, 2, 20, 23
INIT, INIT_ARRAY, INIT_ARRAYSZ = 12, 25, 27
RELACOUNT, RELCOUNT = 0x6FFFFFF9, 0x6FFFFFFA
"""Rows at the begin of a table that name no symbol, as a loader believes too."""
INDIRECT = {"x86_64": 37, "i686": 42, "aarch64": 1032, "armv7l": 160, "s390x": 61}
INDIRECT |= {"ppc64": 248, "ppc64le": 248, "riscv64": 58}
"""Type of the relocation whose value a function computes at load (R_*_IRELATIVE)."""
INDIRECT_FUNCTION = 10
"""Type of a symbol whose address a function computes at load (STT_GNU_IFUNC)."""
MOST_ROWS = 1 << 22
"""Of a table: libtorch_cpu.so has 320,000."""
MOST_STARTS = 64
NATIVE = "<" if sys.byteorder == "little" else ">"


class Relocations(msgspec.Struct, frozen=True):
    text: int | None
    """Offset of the first row that is for bytes which are not mapped writable."""
    indirect: int | None
    """Offset of the first row, or table, whose value a function of the file computes at load."""
    data: frozenset[int]
    """Index of each symbol whose address is stored at load, before anything runs."""
    calls: frozenset[int]
    """Index of each symbol whose address is stored at load or, unless bound then, at a call."""
    starts: tuple[int, ...]
    """Addresses of the first functions that a loader calls."""


NONE = Relocations(None, None, frozenset(), frozenset(), ())


class _Table(msgspec.Struct, frozen=True):
    at: int
    width: int
    """Words of a row."""
    words: memoryview
    infos: frozenset[int]
    """Symbols and types of the rows past the relative ones."""


def read(data: Bytes, facts: Elf) -> Relocations:
    """Raises Damaged for a table that lies outside of the file, or a symbol that there is not."""
    reader = Reader(data)
    if facts.kind == RELOCATABLE or reader.order != NATIVE or not facts.machine:
        return NONE
    main = [
        _table(reader, facts, RELA, RELASZ, 3, facts.value(RELACOUNT) or 0),
        _table(reader, facts, REL, RELSZ, 2, facts.value(RELCOUNT) or 0),
    ]
    calls = _table(reader, facts, JMPREL, PLTRELSZ, 3 if facts.value(PLTREL) == RELA else 2)
    tables = [table for table in (*main, calls) if table is not None]
    if not tables:
        return msgspec.structs.replace(NONE, starts=_starts(None, facts, reader))
    stored: set[int] = set()
    for table in main:
        stored |= _symbols(table, reader) if table else set()
    called = _symbols(calls, reader) if calls else set()
    return Relocations(
        text=next(
            (at for table in tables if (at := _text(table, facts, reader)) is not None), None
        ),
        indirect=_indirect(tables, facts, reader, stored | called),
        data=frozenset(stored),
        calls=frozenset(called),
        starts=_starts(main[0], facts, reader),
    )


def _table(
    reader: Reader, facts: Elf, start: int, length: int, width: int, relative: int = 0
) -> _Table | None:
    address, size = facts.value(start), facts.value(length)
    word = 8 if reader.wide else 4
    if not address or not size or size < width * word:  # no row
        return None
    at = facts.place(address)
    rows = reader.slice(at, size - size % (width * word))
    if len(rows) > MOST_ROWS * width * word:
        raise Damaged(at, f"{len(rows) // (width * word)} relocations")
    words = memoryview(rows).cast("Q" if reader.wide else "I")
    return _Table(at, width, words, frozenset(words[1 + relative * width :: width]))


def _symbols(table: _Table, reader: Reader) -> set[int]:
    shift = 32 if reader.wide else 8
    return {info >> shift for info in table.infos} - {0}


def _text(table: _Table, facts: Elf, reader: Reader) -> int | None:
    """A program that is linked to fixed addresses has the rights of its segments as they are."""
    places = table.words[:: table.width]
    fixed = [(s.address, s.address + s.size) for s in facts.of(LOAD) if not s.flags & WRITE]
    low, high = min(places), max(places)
    near = [(start, end) for start, end in fixed if start <= high and low < end]
    if not near or facts.kind == PROGRAM:
        return None
    merged = _merged(near)
    starts = [start for start, _ in merged]
    for number, place in enumerate(places):
        at = bisect_right(starts, place) - 1
        if at >= 0 and place < merged[at][1] and not _is_nothing(table, number):
            return table.at + number * table.width * (8 if reader.wide else 4)
    return None


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, and none in another's way."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _is_nothing(table: _Table, number: int) -> bool:
    """R_*_NONE, which linkers leave where they dropped a row."""
    return table.words[number * table.width + 1] == 0


def _starts(table: _Table | None, facts: Elf, reader: Reader) -> tuple[int, ...]:
    """Of DT_INIT and DT_INIT_ARRAY, which has addresses or the addends of its relocations."""
    found = [start] if (start := facts.value(INIT)) else []
    first, size = facts.value(INIT_ARRAY), facts.value(INIT_ARRAYSZ) or 0
    if not first or not size or not reader.wide:
        return tuple(found)
    at = facts.place(first)
    size = min(size // 8, MOST_STARTS) * 8
    there = [value for (value,) in reader.rows("Q", at, size // 8)]
    if table is not None:
        inside = range(first, first + size, 8)
        places = table.words[::3]
        for number in [n for n, place in enumerate(places) if place in inside]:
            there[inside.index(places[number])] = table.words[number * 3 + 2]
    return (*found, *filter(None, there))


def _indirect(tables: list[_Table], facts: Elf, reader: Reader, symbols: set[int]) -> int | None:
    mask = 0xFFFFFFFF if reader.wide else 0xFF
    wanted = INDIRECT.get(facts.machine)
    for table in tables:
        if wanted in {info & mask for info in table.infos}:
            kinds = table.words[1 :: table.width]
            number = next(compress(range(len(kinds)), (k & mask == wanted for k in kinds)))
            return table.at + number * table.width * (8 if reader.wide else 4)
    address = facts.value(SYMTAB)
    if address is None:
        if symbols:
            raise Damaged(facts.dynamic, f"relocations of {len(symbols)} symbols, and no table")
        return None
    start = facts.place(address)
    size, info_at = (24, 4) if reader.wide else (16, 12)
    if symbols:
        reader.require(start, (max(symbols) + 1) * size)
    data = reader.data
    kinds_of = (data[start + index * size + info_at] & 15 for index in symbols)
    return start if INDIRECT_FUNCTION in kinds_of else None
