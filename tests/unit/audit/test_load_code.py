"""What runs for certain at load, and what only may."""

from __future__ import annotations

import pytest
from broken_wheels.compiler import library

from qualify.audit import elf, load_code, relocations
from qualify.audit.load_code import Extension

AVX2 = '__asm__ volatile("vpxor %ymm0, %ymm0, %ymm0");'
HIDDEN = '__attribute__((noinline, visibility("hidden"))) '
BEGIN = "__attribute__((constructor)) static void begin(void) {{ {0} }}\n"


def read(source: str, *flags: str) -> Extension | None:
    data = library(source, *flags)
    facts = elf.read(data)
    return load_code.read(data, facts, relocations.read(data, facts))


@pytest.mark.parametrize(
    "source",
    [
        BEGIN.format(AVX2),
        f"{HIDDEN}void deep(void) {{ {AVX2} }}\n" + BEGIN.format("deep();"),
        "int other(void);\n" + BEGIN.format(f"other(); {AVX2}"),
        f"void *PyInit_small(void) {{ {AVX2} return 0; }}\n",
        f"void _init(void) {{ {AVX2} }}\n",
    ],
    ids=["constructor", "called", "after-another-file", "import", "init"],
)
def test_what_runs_for_certain(source: str) -> None:
    flags = ("-nostartfiles",) if "_init(" in source else ()
    found = read(source, *flags)
    assert found is not None
    assert (found.name, found.instruction) == ("avx2", "vpxor ymm0, ymm0, ymm0")


@pytest.mark.parametrize(
    "source",
    [
        "int flag;\n" + BEGIN.format(f"if (flag) {AVX2}"),
        BEGIN.format(f'if (__builtin_cpu_supports("avx2")) {AVX2}'),
        BEGIN.format(
            f"unsigned a = 7, b, c = 0, d; __asm__ volatile("
            f'"cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d)); {AVX2}'
        ),
        "void (*table[2])(void);\nint n;\n" + BEGIN.format("table[n](); return;"),
        f"void exported(void) {{ {AVX2} }}\n",
        f"void _PyInit_small(void) {{ {AVX2} }}\n",
        BEGIN.format('__asm__ volatile("rep bsf %eax, %eax");'),
        BEGIN.format('__asm__ volatile("pxor %xmm0, %xmm0");'),
        BEGIN.format("for (;;) {}"),
    ],
    ids=["branch", "asked", "cpuid", "pointer", "export", "name", "tzcnt", "sse2", "loop"],
)
def test_what_may_never_run_or_runs_everywhere(source: str) -> None:
    assert read(source) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("popcnt %eax, %eax", "popcnt"),
        ("pshufb %xmm0, %xmm0", "ssse3"),
        ("vpxord %zmm0, %zmm0, %zmm0", "avx512"),
        ("blsr %eax, %eax", "bmi"),
        ("aesenc %xmm0, %xmm0", "aes"),
    ],
)
def test_extensions(code: str, name: str) -> None:
    found = read(BEGIN.format(f'__asm__ volatile("{code}");'))
    assert found is not None and found.name == name


def test_the_offset_is_that_of_the_instruction() -> None:
    data = library(BEGIN.format(AVX2))
    found = read(BEGIN.format(AVX2))
    assert found is not None
    assert data[found.offset : found.offset + 4] == bytes.fromhex("c5fdefc0")
