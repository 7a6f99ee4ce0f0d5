"""Symbols and copies that look wrong and are right, and the words of what is wrong."""

from __future__ import annotations

import pytest
from broken_wheels.compiler import CALLS, calling, library, program, stub
from broken_wheels.good import Wheel, compiled, platform, renamed

from audit.facts import AUDIT, facts_of
from qualify.audit import judge_closure
from qualify.audit.finding import Finding

GHOST = "libghost.so.1"


def found(*wheels: Wheel) -> list[Finding]:
    return list(judge_closure.judge([facts_of(each) for each in wheels], AUDIT))


@pytest.mark.parametrize(
    "source",
    [
        "int ghost(void) __attribute__((weak)); int call(void) { return ghost ? ghost() : 0; }",
        "void *PyList_New(long); void *call(void) { return PyList_New(1); }",
        "double cos(double); double call(double x) { return cos(x); }",  # without -lm
    ],
)
def test_symbols_that_each_process_has_or_may_lack(source: str) -> None:
    assert found(compiled(library(source))) == []


@pytest.mark.parametrize(("flag", "when"), [("lazy", "at a call"), ("now", "at load")])
def test_when_a_missing_symbol_is_met(flag: str, when: str) -> None:
    (finding,) = found(compiled(library(CALLS, f"-Wl,-z,{flag}")))
    assert finding.got == f"ghost, {when}"


def test_a_plug_in_may_need_what_the_program_of_its_wheel_has() -> None:
    made = compiled(library(CALLS))
    made.entries["small/tool"] = library("int ghost(void) { return 2; }")
    assert found(made) == []


def test_another_wheel_s_symbol_is_none_without_a_library_that_leads_to_it() -> None:
    other = renamed(compiled(stub(GHOST), f"small/{GHOST}"), "other")
    (finding,) = found(compiled(library(CALLS)), other)
    assert (finding.id, finding.member) == ("undefined-symbol", "small/_native.so")


@pytest.mark.parametrize("library_", ["libc.musl-x86_64.so.1", "libc.so"])
def test_the_c_library_of_musl(library_: str) -> None:
    """By any of its names; a wheel for glibc has neither."""
    made = compiled(calling(stub(library_), "libc-musl.so", "-nostdlib"))
    assert [finding.id for finding in found(made)] == ["needed-missing"]
    platform(made, "py3-none-musllinux_1_2_x86_64")
    assert found(made) == []


IMPORTED = "void *PyInit__native(void) { return 0; }\n"


def test_what_needs_nothing_is_whole_if_python_imports_it() -> None:
    """Else, whoever loads it may have loaded something before."""
    assert found(compiled(library(CALLS, "-nostdlib"))) == []
    (finding,) = found(compiled(library(IMPORTED + CALLS, "-nostdlib")))
    assert (finding.id, finding.got) == ("undefined-symbol", "ghost, at a call")


def thread_local(size: int, model: str = "initial-exec", more: str = IMPORTED) -> bytes:
    source = f'__thread char block[{size}] __attribute__((tls_model("{model}")));\n'
    return library(source + "char *get(void) { return block; }\n" + more)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (thread_local(1664), False),
        (thread_local(1665), True),
        (thread_local(5000, "global-dynamic"), False),
        (thread_local(5000, more=""), False),  # may be loaded with the program (LD_PRELOAD)
    ],
)
def test_thread_local_memory(data: bytes, wrong: bool) -> None:
    assert [finding.id for finding in found(compiled(data))] == ["static-tls"] * wrong


def test_thread_local_memory_of_what_is_loaded_together() -> None:
    block = library(
        '__thread char block[1000] __attribute__((tls_model("initial-exec")));\n'
        "char *ghost(void) { return block; }\n",
        f"-Wl,-soname,{GHOST}",
    )
    source = f'__thread char own[700] __attribute__((tls_model("initial-exec")));\n{IMPORTED}'
    source += "char *ghost(void);\nchar *get(void) { return own + *ghost(); }\n"
    made = compiled(library(source, "-Wl,-rpath,$ORIGIN", with_=((GHOST, block),)))
    made.entries[f"small/{GHOST}"] = block
    (finding,) = found(made)
    assert (finding.id, finding.member) == ("static-tls", f"small/{GHOST}")
    assert finding.got == "1000 bytes, 1700 with what it is loaded with"


def test_requirements_of_requirements_count() -> None:
    owner = renamed(compiled(stub(GHOST), f"small/{GHOST}"), "owner")
    user = compiled(calling(stub(GHOST), GHOST, "-Wl,-rpath,$ORIGIN/../owner"))
    between = renamed(compiled(b"", "small/empty"), "between")
    assert [finding.id for finding in found(owner, between, user)] == ["needed-undeclared"]
    user.swap("METADATA", "packaging>=24", "between")
    assert [finding.id for finding in found(owner, between, user)] == ["needed-undeclared"]
    between.swap("METADATA", "packaging>=24", "owner")
    assert found(owner, between, user) == []


def test_what_a_program_defines_is_no_second_provider() -> None:
    """Its copy of a library's variable (a copy relocation), or meant to come first."""
    variable = library("int shared = 1;", "-Wl,-soname,libone.so")
    reader = library(
        "extern int shared; int read(void) { return shared; }",
        "-Wl,-soname,libtwo.so",
        "-Wl,-rpath,$ORIGIN",
        with_=(("libone.so", variable),),
    )
    tool = program("int shared = 2; void _start(void) { for (;;) {} }", "-Wl,--export-dynamic")
    made = compiled(variable, "small/libone.so")
    made.entries |= {"small/libtwo.so": reader, "small/tool": tool}
    assert found(made) == []


@pytest.mark.parametrize(
    ("symbol", "count"),
    [
        ("ghost", 1),
        ("_ZSt21ios_base_library_initv", 0),
        ("__cxa_call_terminate", 0),
        ("_ZNSo3putEc", 0),
    ],
)
def test_what_toolchains_put_into_each_file_is_the_same(symbol: str, count: int) -> None:
    one, two = (stub(f"lib{n}.so", symbol) for n in (1, 2))
    needing = library(
        f"int {symbol}(void); int call(void) {{ return {symbol}(); }}",
        "-Wl,-rpath,$ORIGIN",
        with_=(("lib1.so", one), ("lib2.so", two)),
    )
    made = compiled(needing)
    made.entries |= {"small/lib1.so": one, "small/lib2.so": two}
    assert [finding.id for finding in found(made)] == ["symbol-two-providers"] * count


def test_a_library_that_nobody_needs_by_its_soname_is_no_second_one() -> None:
    """Loaded by its path, as extension modules are, a SONAME stands for nothing."""
    made = compiled(stub(GHOST), f"small/a/{GHOST}")
    made.entries[f"small/b/{GHOST}"] = stub(GHOST, "other")
    assert found(made) == []
