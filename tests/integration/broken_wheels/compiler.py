"""Small shared objects and programs from C, and changes of their bytes that no linker makes."""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

ADD = "int add(int a, int b) { return a + b; }\n"
PROGRAM = "void _start(void) { for (;;) {} }\n"
"""Of its own, because the system's start-up code needs the system's newest symbol versions."""
BASE = ("-O1", "-Wl,-z,noexecstack", "-Wl,--build-id=none", "-Wl,--no-as-needed")
SECONDS = 60
LOAD = 1


@functools.cache
def library(source: str = ADD, *flags: str, with_: tuple[tuple[str, bytes], ...] = ()) -> bytes:
    """`with_` are files that are linked to, by the path at which the linker finds them."""
    return _link(source, ("-shared", "-fPIC", *flags), with_)


@functools.cache
def program(source: str = PROGRAM, *flags: str) -> bytes:
    return _link(source, ("-pie", "-fPIE", "-nostdlib", *flags), ())


def _link(source: str, flags: tuple[str, ...], with_: tuple[tuple[str, bytes], ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "source.c").write_text(source)
        for name, data in with_:
            (place / name).write_bytes(data)
        strip = () if "-g" in flags else ("-s",)
        words = [
            "gcc",
            *BASE,
            *strip,
            *flags,
            "-o",
            "out",
            "source.c",
            *(name for name, _ in with_),
        ]
        subprocess.run(words, cwd=place, check=True, timeout=SECONDS)
        return (place / "out").read_bytes()


@functools.cache
def stub(soname: str, symbol: str = "ghost", version: str = "") -> bytes:
    """A library of that SONAME with one function, of that symbol version."""
    source = f"int {symbol}(void) {{ return 1; }}\n"
    flags = [f"-Wl,-soname,{soname}"] if soname else []
    if not version:
        return library(source, *flags)
    return scripted(source, f"{version} {{ global: {symbol}; local: *; }};\n", *flags)


def scripted(source: str, versions: str, *flags: str) -> bytes:
    """A library whose symbols have the versions of a linker's script."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "version.map")
        script.write_text(versions)
        return library(source, *flags, f"-Wl,--version-script={script}")


CALLS = "int ghost(void);\nint call(void) { return ghost(); }\n"


def calling(stubbed: bytes, path: str, *flags: str) -> bytes:
    """A library that needs the one that was stubbed."""
    return library(CALLS, *flags, with_=((path, stubbed),))


def segments(data: bytes) -> list[tuple[int, int]]:
    """Kind of each program header, and where it is."""
    table, size, count = struct.unpack_from("<Q14xHH", data, 32)
    places = [table + number * size for number in range(count)]
    return [(struct.unpack_from("<I", data, at)[0], at) for at in places]


def put(data: bytes, at: int, form: str, *values: int) -> bytes:
    packed = struct.pack(form, *values)
    return data[:at] + packed + data[at + len(packed) :]


def reflagged(kind: int, change: Callable[[int], int]) -> bytes:
    """The plain library with other flags on its first segment of a kind."""
    data = library()
    at = next(at for found, at in segments(data) if found == kind)
    flags = struct.unpack_from("<I", data, at + 4)[0]
    return put(data, at + 4, "<I", change(flags))


def without(kind: int) -> bytes:
    """The plain library with the headers of a kind made to say nothing."""
    data = library()
    for found, at in segments(data):
        if found == kind:
            data = put(data, at, "<I", 0)
    return data
