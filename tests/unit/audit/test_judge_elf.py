"""Search paths, suffixes and exports in forms that are right, and where findings point."""

from __future__ import annotations

import pytest
from broken_wheels.binaries import MACHINE_AT
from broken_wheels.compiler import ADD, library, put, scripted
from broken_wheels.good import compiled, platform

from audit.facts import AUDIT, facts_of
from qualify.audit import elf, judge_elf
from qualify.audit.finding import Finding
from qualify.audit.judge_elf import exported


def found(data: bytes, place: str = "small/_native.so", tag: str = "") -> list[Finding]:
    made = compiled(data, place)
    if tag:
        platform(made, tag)
    return list(judge_elf.judge(facts_of(made), AUDIT))


@pytest.mark.parametrize(
    ("path", "id"),
    [
        ("$ORIGIN", ""),
        ("${ORIGIN}/lib", ""),
        ("$ORIGIN/../small.libs", ""),
        ("$ORIGIN/../..", "runpath-outside"),
        ("$ORIGINAL/lib", "runpath-absolute"),
        ("$LIB", "runpath-absolute"),
        ("./lib", "runpath-relative"),
    ],
)
def test_search_paths(path: str, id: str) -> None:
    assert [f.id for f in found(library(ADD, f"-Wl,-rpath,{path}"))] == ([id] if id else [])


def test_programs_in_scripts_may_lead_elsewhere() -> None:
    data = library(ADD, "-Wl,-rpath,$ORIGIN/../lib/python3.11/site-packages/small")
    assert found(data, "small-1.0.data/data/bin/tool") == []


def test_code_of_no_host_is_data() -> None:
    """As an accelerator's is: nothing of it is loaded here."""
    data = library(ADD, "-Wl,-rpath,/opt/lib")
    assert found(put(data, MACHINE_AT, "<H", 190)) == []  # EM_CUDA
    assert [finding.id for finding in found(data)] == ["runpath-absolute"]


def test_exports_have_their_versions() -> None:
    two = "int one(void) { return 1; } int two(void) { return 2; }"
    data = scripted(two, "V1 { global: one; local: *; }; V2 { global: two; } V1;")
    assert exported(elf.read(data)) == {"one@V1", "two@V2"}
    assert exported(elf.read(library())) == {"add"}


def test_a_finding_points_at_the_dynamic_section() -> None:
    data = library(ADD, "-Wl,-rpath,/opt/lib")
    (finding,) = found(data)
    assert finding.offset == elf.read(data).dynamic
    assert finding.got == "RUNPATH /opt/lib"
