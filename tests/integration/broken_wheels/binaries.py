"""Defects of compiled code. Made by gcc where its linker makes them, else with patched bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from broken_wheels.compiler import (
    ADD,
    CALLS,
    PROGRAM,
    calling,
    library,
    program,
    put,
    reflagged,
    scripted,
    stub,
    without,
)
from broken_wheels.defect import Defect, changed
from broken_wheels.good import FOLDER, Wheel, compiled, platform
from broken_wheels.texts import promising
from qualify.audit import elf, relocations
from qualify.audit.policy import Audit

STACK, LOAD, EXECUTE, WRITE = 0x6474E551, 1, 1, 2
AARCH64, POWER, MIPS = 183, 21, 8
TYPE_AT, MACHINE_AT = 16, 18
GHOST = "libghost.so.1"
MUSL, MUSL_LIBC = "py3-none-musllinux_1_2_x86_64", "libc.musl-x86_64.so.1"
TORCH = "libtorch.so"
IN_RUNTIME = "_ZSt21ios_base_library_initv"
TEXTREL = """
__asm__(".text\\n.globl table\\ntable: .quad target\\n.globl target\\ntarget: ret\\n");
"""
MANY = "".join(f"int a_name_of_some_length_{n}(int a) {{ return a; }}\n" for n in range(200))
PATH = 'const char *path(void) { return "%s"; }\n'


def of(make: Callable[[], bytes], place: str = "small/_native.so") -> Callable[[], Wheel]:
    return lambda: compiled(make(), place)


def searching(path: str, place: str = "small/_native.so") -> Callable[[], Wheel]:
    return of(lambda: library(ADD, f"-Wl,-rpath,{path}"), place)


def old_searching(path: str) -> Callable[[], Wheel]:
    return of(lambda: library(ADD, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{path}"))


def beside(*places: tuple[str, bytes]) -> Callable[[], Wheel]:
    """A wheel with several libraries."""
    wheel = compiled(places[0][1], places[0][0])
    wheel.entries.update(places)
    return lambda: wheel


def tagged(tag: str, place: str = "small/_native.so") -> Callable[[], Wheel]:
    return changed(lambda wheel: platform(wheel, tag), of(library, place))


def for_power(place: str) -> Callable[[], Wheel]:
    """Python's suffix names this architecture otherwise than the platform tag does."""
    tag = "cp311-cp311-manylinux_2_28_ppc64le"
    power = of(lambda: put(library(), MACHINE_AT, "<H", POWER), place)
    return changed(lambda wheel: platform(wheel, tag), power)


def for_musl(place: str) -> Callable[[], Wheel]:
    made = of(lambda: on_musl(MUSL_LIBC), place)
    return changed(lambda wheel: platform(wheel, "cp311-cp311-musllinux_1_2_x86_64"), made)


def named(data: bytes) -> Callable[[], Wheel]:
    """What a wheel has under the name of an extension module."""
    return changed(lambda wheel: platform(wheel, CP311), of(lambda: data, EXTENSION))


def initial(module: str, place: str = "") -> Callable[[], Wheel]:
    """An extension module that was compiled as `module`."""
    made = of(lambda: library(f"void *PyInit_{module}(void) {{ return 0; }}\n"), place or EXTENSION)
    return changed(lambda wheel: platform(wheel, CP311), made)


IMPORTED = "void *PyInit__native(void) { return 0; }\n"


def thread_local(model: str) -> Callable[[], Wheel]:
    source = f'__thread char block[4096] __attribute__((tls_model("{model}")));\n{IMPORTED}'
    return of(lambda: library(source + "char *get(void) { return block; }\n"))


def pure_with_code(wheel: Wheel) -> None:
    wheel.swap("WHEEL", "Purelib: false", "Purelib: true")


def for_any(wheel: Wheel) -> None:
    platform(wheel, "py3-none-any")
    pure_with_code(wheel)


def tool(mode: int, place: str = "small/bin/tool") -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.modes.update({place: mode}), of(program, place))


def unlicensed(wheel: Wheel) -> None:
    wheel.swap("METADATA", "License-File: LICENSE\n", "")
    del wheel.entries[f"{FOLDER}/licenses/LICENSE"]


def requiring_torch(wheel: Wheel) -> None:
    wheel.swap("METADATA", "Requires-Dist: packaging>=24", "Requires-Dist: torch")


def needing_version(version: str) -> Callable[[], Wheel]:
    host = stub("libc.so.6", "ghost", version)
    return of(lambda: calling(host, "libhost.so", "-nostdlib"))


def on_musl(libc: str) -> bytes:
    """A library that needs the C library by that name, and nothing of glibc."""
    return calling(stub(libc), "libc.so", "-nostdlib")


def ghost_found(path: str) -> Callable[[], Wheel]:
    return beside(
        ("small/_native.so", calling(stub(GHOST), GHOST, f"-Wl,-rpath,{path}")),
        ("small/lib/" + GHOST, stub(GHOST)),
    )


def through_another(*flags: str, also: tuple[str, bytes] | None = None) -> Callable[[], Wheel]:
    """An extension that finds a library, which needs another one and searches nowhere."""
    middle = library(
        CALLS.replace("call(", "middle("), "-Wl,-soname,libmiddle.so", with_=((GHOST, stub(GHOST)),)
    )
    with_ = (("libmiddle.so", middle), *([also] if also else []), (GHOST, stub(GHOST)))
    if not also:
        flags = (*flags, "-Wl,--as-needed", "-Wl,-rpath-link,.")
    extension = library(CALLS.replace("ghost", "middle"), *flags, with_=with_)
    return beside(
        ("small/_native.so", extension),
        ("small/lib/libmiddle.so", middle),
        ("small/lib/" + GHOST, stub(GHOST)),
    )


def versioned(has: str) -> Callable[[], Wheel]:
    """A caller of a library in version 2 of its symbol."""
    return beside(
        ("small/_native.so", calling(stub(GHOST, "ghost", "GHOST_2"), GHOST, "-Wl,-rpath,$ORIGIN")),
        ("small/" + GHOST, stub(GHOST, "ghost", has)),
    )


def two_definers(second: str, symbol: str = "ghost") -> Callable[[], Wheel]:
    """A library that needs a symbol, which two others of its look-up define."""
    one = library(f"int {symbol}(void) {{ return 1; }}\n", "-Wl,-soname,libone.so")
    two = library(second, "-Wl,-soname,libtwo.so")
    calls = CALLS.replace("ghost", symbol)
    needing = library(calls, "-Wl,-rpath,$ORIGIN", with_=(("libone.so", one), ("libtwo.so", two)))
    return beside(("small/_native.so", needing), ("small/libone.so", one), ("small/libtwo.so", two))


def twice_needed(second: bytes) -> Callable[[], Wheel]:
    """Two extensions, each with a library of one SONAME in its own folder."""
    return beside(
        ("small/a.so", calling(stub(GHOST), GHOST, "-Wl,-rpath,$ORIGIN/a")),
        ("small/a/" + GHOST, stub(GHOST)),
        ("small/b.so", calling(stub(GHOST), GHOST, "-Wl,-rpath,$ORIGIN/b", "-Wl,-z,now")),
        ("small/b/" + GHOST, second),
    )


def entry_of(data: bytes, tag: int) -> int:
    """Where the dynamic section has a tag."""
    start = elf.read(data).dynamic
    return next(at for at in range(start, len(data), 16) if data[at : at + 8] == pack(tag))


def pack(number: int) -> bytes:
    return struct.pack("<Q", number)


def unflagged(data: bytes) -> bytes:
    """Text relocations that the file does not own up to."""
    for tag in (elf.TEXTREL, elf.FLAGS):
        data = put(data, entry_of(data, tag), "<Q", DEBUG)
    return data


def of_no_symbol(data: bytes) -> bytes:
    """Its first relocation at a call for a symbol far behind the table."""
    facts = elf.read(data)
    at = facts.place(facts.value(relocations.JMPREL) or 0)
    return put(data, at + 8, "<Q", 0xFFFFFF << 32 | 7)


def hardened(*flags: str) -> Callable[[], Wheel]:
    all_ = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,--build-id=sha1", *flags)
    return of(lambda: library(ADD, *all_))


NAMED_ONLY = '__asm__(".text\\n.reloc ., R_X86_64_NONE, ghost\\nnop\\n");\n'
"""An undefined symbol that the file has and that no relocation is for."""
DEBUG = 21
IFUNC = """
static int one(void) { return 1; }
static int (*choose(void))(void) { return one; }
%s int chosen(void) __attribute__((ifunc("choose")));
int call(void) { return chosen(); }
"""
AT_LOAD = """
__attribute__((constructor)) static void begin(void) {
  %s __asm__ volatile("vpxor %%ymm0, %%ymm0, %%ymm0");
}
"""
ASKED = 'if (__builtin_cpu_supports("avx2"))'
AT_IMPORT = """
struct table { long rows[8]; } table;
extern struct table other;
struct table other = {{1}};
void *PyInit__native(void) { table = other; return &table; }
"""
MUSL = "py3-none-musllinux_1_2_x86_64"


def indirect(tag: str, kind: str) -> Callable[[], Wheel]:
    return changed(
        lambda wheel: platform(wheel, tag), of(lambda: library(IFUNC % kind, "-nostdlib"))
    )


HARDENED = promising(hardened=True, largest_bytes=100_000, exports={"small/_native.so": ["add"]})
HARDENING = [
    Defect("relro-missing", hardened("-Wl,-z,norelro"), hardened(), policy=HARDENED),
    Defect("bind-now-missing", hardened("-Wl,-z,lazy"), hardened(), policy=HARDENED),
    Defect("build-id-missing", hardened("-Wl,--build-id=none"), hardened(), policy=HARDENED),
]
EXTENSION = "small/_native.cpython-311-x86_64-linux-gnu.so"
CP311 = "cp311-cp311-manylinux_2_28_x86_64"
PACKAGE = EXTENSION.replace("_native", "__init__")
PYD = "small/_native.pyd"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
GOOD = of(library)
NEEDS_GHOST = of(lambda: calling(stub(GHOST), GHOST))
NEEDS_TORCH = of(lambda: calling(stub(TORCH), TORCH))

STABLE = "cp310-abi3-manylinux_2_28_x86_64"
NEEDS_PYTHON = "void %s(void);\nvoid use(void) { %s(); }\n"


def stable(symbol: str, place: str = "small/_native.abi3.so") -> Callable[[], Wheel]:
    """An extension for each Python from 3.10 on that calls a function of it."""
    made = of(lambda: library(NEEDS_PYTHON % (symbol, symbol)), place)
    return changed(lambda wheel: platform(wheel, STABLE), made)


SEARCH = [
    Defect("runpath-absolute", searching("/opt/builder/lib"), searching("$ORIGIN")),
    Defect("runpath-absolute", old_searching("/opt/lib"), old_searching("$ORIGIN"), case="rpath"),
    Defect("runpath-empty", searching("$ORIGIN:"), searching("$ORIGIN:$ORIGIN/lib")),
    Defect(
        "runpath-empty",
        searching(":$ORIGIN"),
        of(lambda: library(ADD, "-Wl,-rpath,none").replace(b"\0none\0", bytes(6))),
        case="first",
    ),
    Defect("runpath-relative", searching("lib"), searching("$ORIGIN/lib")),
    Defect("runpath-outside", searching("$ORIGIN/../../lib"), searching("$ORIGIN/../other/lib")),
    Defect(
        "runpath-outside",
        searching("$ORIGIN/../..", "small-1.0.data/platlib/small/a.so"),
        searching("$ORIGIN/..", "small-1.0.data/platlib/small/a.so"),
        case="data",
    ),
    Defect("needed-missing", NEEDS_GHOST, ghost_found("$ORIGIN/lib")),
    Defect("needed-unreached", ghost_found("$ORIGIN"), ghost_found("$ORIGIN/lib")),
    Defect(
        "needed-unreached",
        through_another("-Wl,-rpath,$ORIGIN/lib"),
        through_another("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/lib"),
        case="inherited",
    ),
    Defect(
        "needed-unreached",
        through_another("-Wl,-rpath,$ORIGIN/lib"),
        through_another("-Wl,-rpath,$ORIGIN/lib", also=(GHOST, stub(GHOST))),
        case="loaded-before",
    ),
    Defect(
        "needed-missing",
        changed(lambda wheel: platform(wheel, MUSL), of(library)),
        changed(
            lambda wheel: platform(wheel, MUSL),
            beside(("small/_native.so", on_musl(MUSL_LIBC)), ("small/more.so", on_musl("libc.so"))),
        ),
        case="musl",
    ),
    Defect("needed-undeclared", NEEDS_TORCH, changed(requiring_torch, NEEDS_TORCH)),
    Defect(
        "needed-path",
        beside(("small/_native.so", calling(stub(""), "./libghost.so")), ("libghost.so", stub(""))),
        beside(
            (
                "small/_native.so",
                calling(stub("libghost.so"), "./libghost.so", "-Wl,-rpath,$ORIGIN/.."),
            ),
            ("libghost.so", stub("libghost.so")),
        ),
    ),
    Defect(
        "needed-python", of(lambda: calling(stub("libpython3.11.so.1.0"), "libpython.so")), GOOD
    ),
]
LOADING = [
    Defect("elf-damaged", of(lambda: library()[:3000]), GOOD),
    Defect("elf-damaged", of(lambda: library()[:40]), GOOD, case="header"),
    Defect("elf-machine", of(lambda: put(library(), MACHINE_AT, "<H", AARCH64)), GOOD),
    Defect("execstack", of(lambda: library(ADD, "-Wl,-z,execstack")), GOOD),
    Defect("execstack", of(lambda: without(STACK)), GOOD, case="header-missing"),
    Defect("text-relocations", of(lambda: library(TEXTREL, "-Wl,-z,notext")), GOOD),
    Defect(
        "text-relocations",
        of(lambda: unflagged(library(TEXTREL, "-Wl,-z,notext"))),
        of(lambda: library(TEXTREL.replace(".text", ".data"), "-Wl,-z,notext")),
        case="unflagged",
    ),
    Defect(
        "elf-damaged",
        of(lambda: of_no_symbol(calling(stub("libc.so.6"), "libc.so.6", "-nostdlib"))),
        of(lambda: calling(stub("libc.so.6", "ghost", "GLIBC_2.2.5"), "libc.so.6", "-nostdlib")),
        case="relocation",
    ),
    Defect("ifunc-musl", indirect(MUSL, "static"), GOOD),
    Defect(
        "ifunc-musl",
        indirect(MUSL, ""),
        indirect("py3-none-manylinux_2_28_x86_64", ""),
        case="exported",
    ),
    Defect("version-missing", versioned("GHOST_1"), versioned("GHOST_2")),
    Defect(
        "symbol-two-providers",
        two_definers("int ghost(void) { return 2; }\n"),
        two_definers("__attribute__((weak)) int ghost(void) { return 2; }\n"),
    ),
    Defect(
        "symbol-two-providers",
        two_definers("int ghost(void) { return 2; }\n"),
        two_definers(f"int {IN_RUNTIME}(void) {{ return 1; }}\nint more;\n", IN_RUNTIME),
        case="runtime",
    ),
    Defect(
        "writable-code",
        of(lambda: reflagged(LOAD, lambda flags: flags | WRITE | EXECUTE)),
        of(lambda: reflagged(LOAD, lambda flags: flags)),
    ),
    Defect(
        "interpreter-path",
        changed(
            lambda wheel: wheel.modes.update({"small/tool": 0o100755}),
            of(
                lambda: program(PROGRAM, "-Wl,--dynamic-linker=/nix/store/glibc/lib/ld.so"),
                "small/tool",
            ),
        ),
        tool(0o100755),
    ),
    Defect("isa-at-load", of(lambda: library(AT_LOAD % "")), of(lambda: library(AT_LOAD % ASKED))),
    Defect(
        "isa-at-load",
        of(lambda: library(AT_IMPORT, "-O2", "-mavx2")),
        of(lambda: library(AT_IMPORT, "-O2")),
        case="import",
    ),
    Defect("isa-level", of(lambda: library(ADD, "-Wl,-z,x86-64-v3")), GOOD),
    Defect("tag-too-old", needing_version("GLIBC_2.99"), needing_version("GLIBC_2.28")),
    Defect(
        "tag-too-old",
        needing_version("GLIBC_ABI_DT_RELR"),
        needing_version("GLIBC_2.28"),
        case="relr",
    ),
    Defect(
        "undefined-symbol",
        of(lambda: library(CALLS)),
        of(lambda: library(CALLS + "int ghost(void) { return 2; }\n")),
    ),
    Defect("tag-too-old", needing_version("GLIBC_ABI_GNU2_TLS"), GOOD, case="abi"),
    Defect("glibc-private", needing_version("GLIBC_PRIVATE"), GOOD),
    Defect("static-tls", thread_local("initial-exec"), thread_local("global-dynamic")),
    Defect(
        "undefined-symbol",
        of(lambda: library(IMPORTED + CALLS, "-nostdlib")),
        of(lambda: library(IMPORTED, "-nostdlib")),
        case="needs-nothing",
    ),
    Defect(
        "undefined-symbol",
        of(lambda: library(CALLS + "void *place(void) { return ghost; }\n")),
        of(lambda: library(ADD + NAMED_ONLY)),
        case="unused",
    ),
]
CALLS_PYTHON = "int PyErr_Occurred(void);\nint call(void) { return PyErr_Occurred(); }\n"
NATIVE = "small/_native.so"


def exporting(*symbols: str) -> Callable[[Audit], Audit]:
    return promising(exports={NATIVE: list(symbols)}, largest_bytes=100_000)


def of_versions(script: str) -> Callable[[], Wheel]:
    source = ADD + "int more(void) { return 1; }\n"
    return of(lambda: scripted(source, script, "-Wl,-soname,libadd.so"))


WHOLE = [
    Defect(
        "python-symbol",
        of(lambda: library(CALLS_PYTHON)),
        changed(
            lambda wheel: platform(wheel, "cp311-cp311-manylinux_2_28_x86_64"),
            of(lambda: library(CALLS_PYTHON)),
        ),
    ),
    Defect(
        "export-unlisted",
        of(lambda: library(ADD + "int more(void) { return 1; }\n")),
        of(library),
        policy=exporting("add"),
    ),
    Defect(
        "export-missing",
        of(library),
        of(lambda: library(ADD + "int more(void) { return 1; }\n")),
        policy=exporting("add", "more"),
    ),
    Defect(
        "export-missing",
        of_versions("SMALL_1 { global: add; local: *; };"),
        of_versions("SMALL_1 { global: add; local: *; }; SMALL_2 { global: more; };"),
        policy=exporting("add@SMALL_1", "more@SMALL_2"),
        case="version",
    ),
    Defect("tag-any-binary", changed(for_any, GOOD), GOOD),
    Defect("wheel-purelib-binary", changed(pure_with_code, GOOD), GOOD),
    Defect(
        "extension-suffix",
        tagged("cp312-cp312-manylinux_2_28_x86_64", EXTENSION),
        tagged(CP311, EXTENSION),
    ),
    Defect(
        "extension-suffix",
        tagged("cp311-abi3-manylinux_2_28_x86_64", EXTENSION),
        tagged("cp311-abi3-manylinux_2_28_x86_64", "small/_native.abi3.so"),
        case="abi3",
    ),
    Defect(
        "extension-suffix",
        for_power(EXTENSION),
        for_power(EXTENSION.replace("x86_64", "powerpc64le")),
        case="triplet",
    ),
    Defect(
        "extension-suffix",
        tagged("cp313-cp313t-manylinux_2_28_x86_64", EXTENSION.replace("311", "313")),
        tagged("cp313-cp313t-manylinux_2_28_x86_64", EXTENSION.replace("311", "313t")),
        case="free-threaded",
    ),
    Defect(
        "extension-suffix",
        for_musl(EXTENSION),
        for_musl(EXTENSION.replace("gnu", "musl")),
        case="musl",
    ),
    Defect("extension-format", named(POINTER), named(library()), case="pointer"),
    Defect("extension-format", named(b""), named(library()), case="empty"),
    Defect(
        "extension-format",
        named(put(library(), TYPE_AT, "<H", elf.RELOCATABLE)),
        named(library()),
        case="object",
    ),
    Defect(
        "extension-format",
        named(put(library(), MACHINE_AT, "<H", MIPS)),
        named(library()),
        case="machine",
    ),
    Defect(
        "extension-format",
        changed(lambda wheel: platform(wheel, "cp311-cp311-win_amd64"), of(library, PYD)),
        changed(
            lambda wheel: platform(wheel, "cp311-cp311-win_amd64"), of(lambda: b"MZ\x90\0", PYD)
        ),
        case="windows",
    ),
    Defect("extension-init", initial("other"), initial("_native")),
    Defect("extension-init", initial("other", PACKAGE), initial("small", PACKAGE), case="package"),
    Defect("mode-lost", tool(0o100644), tool(0o100755)),
    Defect(
        "mode-lost",
        tool(0o100644, "small-1.0.data/data/bin/tool"),
        tool(0o100755, "small-1.0.data/data/bin/tool"),
        case="data",
    ),
    Defect(
        "mode-lost",
        tool(0o100644, "small-1.0.data/scripts/tool"),
        tool(0o100755, "small-1.0.data/scripts/tool"),
        case="scripts",
    ),
    Defect(
        "licence-none",
        changed(unlicensed, of(lambda: stub(GHOST), "small.libs/" + GHOST)),
        of(lambda: stub(GHOST), "small.libs/" + GHOST),
    ),
    Defect(
        "two-openmp",
        beside(
            ("small.libs/libgomp-a1.so.1", stub("libgomp.so.1")),
            ("small.libs/libiomp5.so", stub("libiomp5.so")),
        ),
        beside(
            ("small.libs/libgomp-a1.so.1", stub("libgomp.so.1")),
            ("small.libs/libompt.so", stub("libompt.so")),
        ),
    ),
    Defect(
        "library-twice",
        twice_needed(stub(GHOST, "other")),
        twice_needed(stub(GHOST)),
    ),
    Defect(
        "build-path",
        of(lambda: library(PATH % "/home/builder/small/source.c")),
        of(lambda: library(PATH % "/usr/include/small/source.h")),
    ),
    Defect("debug-information", of(lambda: library(ADD, "-g")), GOOD),
    Defect(
        "debug-information",
        of(lambda: library(MANY, "-g", "-gz")),
        GOOD,
        case="compressed",
    ),
    Defect("abi3-too-new", stable("PyErr_GetRaisedException"), stable("PyErr_Fetch")),
    Defect("abi3-symbol", stable("_PyObject_LookupAttr"), stable("PyObject_GetAttr")),
]
DEFECTS = [*SEARCH, *LOADING, *HARDENING, *WHOLE]
