"""What a loader finds, and what this machine's loader really finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broken_wheels.compiler import ADD, calling, library, stub
from broken_wheels.good import Wheel, compiled, renamed

from audit.facts import AUDIT, facts_of
from qualify.audit import closure
from qualify.audit.closure import How, Installed
from qualify.audit.layout import SITE

GHOST = "libghost.so.1"
NEEDS = "$ORIGIN/../ghosts"


def two(path: str, *flags: str) -> list[Wheel]:
    """`user` needs a library that `ghosts` has, and searches along `path`."""
    needing = calling(stub(GHOST), GHOST, f"-Wl,-rpath,{path}", *flags)
    return [
        renamed(compiled(stub(GHOST), f"small/{GHOST}"), "ghosts"),
        renamed(compiled(needing, "small/_native.so"), "user"),
    ]


def installed(wheels: list[Wheel]) -> Installed:
    return closure.resolve([facts_of(each) for each in wheels], AUDIT)


def how(found: Installed, place: str, name: str = GHOST) -> How:
    return found.links[f"{SITE}/{place}"][name].how


@pytest.mark.parametrize(
    ("path", "flags", "expected"),
    [
        ("$ORIGIN/../ghosts", (), How.SEARCHED),
        ("${ORIGIN}/../ghosts", (), How.SEARCHED),
        ("$ORIGIN/../ghosts/", ("-Wl,--disable-new-dtags",), How.SEARCHED),
        ("$ORIGIN", (), How.UNREACHED),
        ("$ORIGINAL/../ghosts", (), How.UNREACHED),
        ("/ghosts", (), How.UNREACHED),
    ],
)
def test_this_machine_s_loader_agrees(
    tmp_path: Path, path: str, flags: tuple[str, ...], expected: How
) -> None:
    """The files as they would be installed, loaded in a process of their own."""
    wheels = two(path, *flags)
    assert how(installed(wheels), "user/_native.so") is expected
    for wheel in wheels:
        for name, data in wheel.entries.items():
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    code = f"import ctypes; ctypes.CDLL({str(tmp_path / 'user/_native.so')!r}).call()"
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60)
    assert (done.returncode == 0) is (expected is How.SEARCHED), done.stderr


def test_of_the_host_and_of_nobody() -> None:
    found = installed(two("$ORIGIN")[1:])
    assert how(found, "user/_native.so") is How.MISSING
    assert how(found, "user/_native.so", "libc.so.6") is How.HOST


def test_what_a_package_loads_first() -> None:
    """As long as it has it: a promise of policy that the wheel does not keep is none."""
    needing = renamed(compiled(calling(stub("libtorch.so"), "libtorch.so")), "user")
    assert how(installed([needing]), "user/_native.so", "libtorch.so") is How.FIRST
    for name, expected in (("libtorch.so", How.FIRST), ("libc10.so", How.MISSING)):
        torch = renamed(compiled(stub(name), f"small/{name}"), "torch")
        assert how(installed([torch, needing]), "user/_native.so", "libtorch.so") is expected


def test_a_library_of_another_architecture_is_passed_over() -> None:
    wheels = two(NEEDS)
    other = bytearray(wheels[0].entries[f"ghosts/{GHOST}"])
    other[18] = 183
    wheels[0].entries[f"ghosts/{GHOST}"] = bytes(other)
    assert how(installed(wheels), "user/_native.so") is How.MISSING


def test_libraries_that_need_each_other_are_looked_at() -> None:
    one = stub("libone.so", "one")
    two_ = library(ADD, "-Wl,-soname,libtwo.so", "-Wl,-rpath,$ORIGIN", with_=(("libone.so", one),))
    one = library("", "-Wl,-soname,libone.so", "-Wl,-rpath,$ORIGIN", with_=(("libtwo.so", two_),))
    wheel = compiled(one, "small/libone.so")
    wheel.entries["small/libtwo.so"] = two_
    found = installed([wheel])
    assert how(found, "small/libone.so", "libtwo.so") is How.SEARCHED
    assert how(found, "small/libtwo.so", "libone.so") is How.SEARCHED


def test_a_closure_names_files_and_the_rest() -> None:
    found = installed(two(NEEDS))
    files, names = found.closure(found.libraries[f"{SITE}/user/_native.so"])
    assert [file.member for file in files] == ["user/_native.so", f"ghosts/{GHOST}"]
    assert names == {"libc.so.6"}
