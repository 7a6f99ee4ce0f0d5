"""Names, formats and functions of extension modules that are right, beside those that are not."""

from __future__ import annotations

import pytest
from broken_wheels.compiler import library
from broken_wheels.good import compiled, platform

from audit.facts import facts_of
from qualify.audit import judge_extension
from qualify.audit.finding import Finding

ELF = library()
MACHO, PE = bytes.fromhex("cffaedfe07000001"), b"MZ\x90\0"
GLIBC, MUSL = "manylinux_2_28_x86_64", "musllinux_1_2_x86_64"
GNU = "x86_64-linux-gnu"


def found(data: bytes, place: str, tag: str) -> list[Finding]:
    made = compiled(data, place)
    platform(made, tag)
    return list(judge_extension.judge(facts_of(made)))


@pytest.mark.parametrize(
    ("tag", "suffix", "wrong"),
    [
        (f"cp311-cp311-{GLIBC}", f"cpython-311-{GNU}", False),
        (f"cp311-cp311-{GLIBC}", f"cpython-312-{GNU}", True),
        (f"cp311-cp311-{GLIBC}", "cpython-311-aarch64-linux-gnu", True),
        (f"cp311-cp311-{GLIBC}", "cpython-311-x86_64-linux-musl", True),
        (f"cp311-cp311-{MUSL}", "cpython-311-x86_64-linux-musl", False),
        (f"cp311-cp311-{MUSL}", f"cpython-311-{GNU}", True),
        (f"cp310-cp310-{MUSL}", f"cpython-310-{GNU}", False),  # the same for both before 3.11
        (f"cp311-cp311-{GLIBC}.{MUSL}", f"cpython-311-{GNU}", False),
        ("cp311-cp311-linux_x86_64", "cpython-311-x86_64-linux-musl", False),
        (f"cp311-abi3-{GLIBC}", "abi3", False),
        (f"cp311-abi3-{GLIBC}", f"cpython-311-{GNU}", True),
        (f"cp313-cp313t-{GLIBC}", f"cpython-313t-{GNU}", False),
        (f"cp313-cp313t-{GLIBC}", f"cpython-313-{GNU}", True),
        (f"cp313-cp313-{GLIBC}", f"cpython-313t-{GNU}", True),
        (f"cp313-cp313.cp313t-{GLIBC}", f"cpython-313t-{GNU}", False),
        (f"cp312-cp312d-{GLIBC}", f"cpython-312-{GNU}", False),
        (f"cp312-cp312d-{GLIBC}", f"cpython-312d-{GNU}", False),
        (f"cp37-cp37m-{GLIBC}", f"cpython-37m-{GNU}", False),
        (f"cp312-none-{GLIBC}", f"cpython-312-{GNU}", False),
        (f"pp311-pypy311_pp73-{GLIBC}", f"pypy311-pp73-{GNU}", False),
        (f"py3-none-{GLIBC}", f"cpython-312-{GNU}", False),
    ],
)
def test_suffixes(tag: str, suffix: str, wrong: bool) -> None:
    ids = [finding.id for finding in found(ELF, f"small/a.{suffix}.so", tag)]
    assert ids == ["extension-suffix"] * wrong


@pytest.mark.parametrize(
    ("data", "place", "tag", "wrong"),
    [
        (MACHO, "small/a.cpython-312-darwin.so", "cp312-cp312-macosx_11_0_arm64", False),
        (MACHO, "small/a.abi3.so", "cp312-abi3-macosx_11_0_arm64", False),
        (ELF, "small/a.abi3.so", "cp312-abi3-macosx_11_0_arm64", True),
        (MACHO, "small/a.abi3.so", f"cp312-abi3-{GLIBC}", True),
        (MACHO, "small/a.abi3.so", f"cp312-abi3-{GLIBC}.macosx_11_0_arm64", False),
        (PE, "small/a.cp312-win_amd64.pyd", "cp312-cp312-win_amd64", False),
        (ELF, "small/a.cp312-win_amd64.pyd", "cp312-cp312-win_amd64", True),
        (b"", "small/a.abi3.so", "cp312-abi3-freebsd_14_amd64", False),  # of formats not known
        (b"INPUT(libreal.so)", "small/libscript.so", f"py3-none-{GLIBC}", False),
    ],
)
def test_formats(data: bytes, place: str, tag: str, wrong: bool) -> None:
    ids = [finding.id for finding in found(data, place, tag)]
    assert ids == ["extension-format"] * wrong


@pytest.mark.parametrize(
    ("functions", "place", "wrong"),
    [
        (("PyInit_a",), "small/a.abi3.so", False),
        (("PyInit_b",), "small/a.abi3.so", True),
        (("PyInit_b", "PyInit_a"), "small/a.abi3.so", False),
        (("PyInit_small",), "small/__init__.abi3.so", False),
        (("ordinary",), "small/a.abi3.so", False),  # opened with ctypes
        (("PyInit_b",), "small/liba.so", False),
        (("PyInitU_tda",), "small/\u00e4.abi3.so", False),
    ],
)
def test_functions(functions: tuple[str, ...], place: str, wrong: bool) -> None:
    source = "".join(f"void *{name}(void) {{ return 0; }}\n" for name in functions)
    ids = [finding.id for finding in found(library(source), place, f"cp312-abi3-{GLIBC}")]
    assert ids == ["extension-init"] * wrong
