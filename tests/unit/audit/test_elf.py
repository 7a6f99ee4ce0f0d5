"""Facts of files that gcc links, beside what readelf's library says; damage is named."""

from __future__ import annotations

import io
import struct

import pytest
from broken_wheels.compiler import ADD, calling, library, program, put, scripted, segments, stub
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from qualify.audit import elf
from qualify.audit.elf import Damaged, Needed

GHOST = "libghost.so.1"
TWO = "V1 { global: one; local: *; }; V2 { global: two; } V1;"


def of_versions() -> bytes:
    return scripted("int one(void) { return 1; } int two(void) { return 2; }", TWO)


def test_needed_and_search_paths() -> None:
    facts = elf.read(calling(stub(GHOST), GHOST, "-Wl,-rpath,$ORIGIN:/a", "-Wl,-soname,libme.so"))
    assert facts.needed[0] == GHOST and "libc.so.6" in facts.needed
    assert (facts.runpath, facts.rpath, facts.soname) == (("$ORIGIN", "/a"), (), "libme.so")
    old = elf.read(library(ADD, "-Wl,--disable-new-dtags,-rpath,$ORIGIN"))
    assert (old.runpath, old.rpath) == ((), ("$ORIGIN",))


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_those_of_another_reader(style: str) -> None:
    """The count of symbols is in a hash table, of one kind or of the other."""
    data = library(
        "int ghost(void); int here(void) { return ghost(); }\n"
        "__attribute__((weak)) int soft(void) { return 1; }\n",
        f"-Wl,--hash-style={style}",
        with_=((GHOST, stub(GHOST)),),
    )
    facts = elf.read(data)
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".dynsym")
    assert isinstance(section, SymbolTableSection)
    symbols = {
        symbol.name: (number, symbol["st_shndx"] == "SHN_UNDEF", symbol["st_info"]["bind"])
        for number, symbol in enumerate(section.iter_symbols())
        if symbol.name
    }
    undefined = {
        u.name: (u.index, True, "STB_WEAK" if u.weak else "STB_GLOBAL") for u in facts.undefined
    }
    assert undefined == {name: found for name, found in symbols.items() if found[1]}
    assert {n.decode() for n in facts.defined} == {
        n for n, found in symbols.items() if not found[1]
    }
    assert facts.weak == {b"soft"}


def test_versions() -> None:
    facts = elf.read(of_versions())
    assert facts.defines == {"V1", "V2"}
    assert {b"one@V1", b"two@V2"} <= facts.versioned
    user = elf.read(calling(stub(GHOST, "ghost", "G_1"), GHOST))
    assert Needed(GHOST, "G_1") in user.versions
    assert {u.version for u in user.undefined if u.name == "ghost"} == {"G_1"}
    assert elf.read(library()).defines == elf.read(library()).versioned == frozenset()


@pytest.mark.parametrize(("flag", "bound"), [("-Wl,-z,now", True), ("-Wl,-z,lazy", False)])
def test_bound_at_load(flag: str, bound: bool) -> None:
    assert elf.read(library(ADD, flag)).bind_now is bound


def test_the_build_id_is_that_of_another_reader() -> None:
    data = library(ADD, "-Wl,--build-id=sha1")
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".note.gnu.build-id")
    assert isinstance(section, NoteSection)
    (note,) = section.iter_notes()
    assert elf.read(data).build_id == note["n_desc"] != ""
    assert elf.read(library()).build_id == ""


def test_a_program() -> None:
    facts = elf.read(program())
    assert facts.interpreter == "/lib64/ld-linux-x86-64.so.2"
    assert facts.machine == "x86_64"


def test_the_dynamic_entries_are_those_of_another_reader() -> None:
    data = library()
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    tags = [(tag.entry.d_tag, tag.entry.d_val) for tag in section.iter_tags()]
    whole = [value for name, value in tags if name != "DT_NULL"]
    assert [value for _, value in elf.read(data).entries] == whole != []


def test_what_runs_on_no_host_has_no_machine() -> None:
    assert elf.read(put(library(), 18, "<H", 190)).machine == ""  # EM_CUDA


@pytest.mark.parametrize("length", [0, 4, 51, 63])
def test_a_header_that_is_cut(length: int) -> None:
    with pytest.raises(Damaged):
        elf.read(library()[:length])


def test_a_segment_past_the_end_names_its_place() -> None:
    data = library()
    at = next(at for kind, at in segments(data) if kind == elf.DYNAMIC)
    (offset,) = struct.unpack_from("<Q", data, at + 8)
    with pytest.raises(Damaged) as caught:
        elf.read(put(data, at + 8, "<Q", offset + len(data)))
    assert caught.value.offset == offset + len(data)


def test_a_chain_of_versions_without_an_end() -> None:
    data = of_versions()
    at = elf.read(data).place(elf.read(data).value(elf.VERDEF) or 0)
    with pytest.raises(Damaged):
        elf.read(put(data, at + 16, "<I", 0xFFFFFFF0))
