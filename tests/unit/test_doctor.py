"""What a machine lacks is said in one clear message, by the doctor and before a run starts."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from qualify import build, doctor, images
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError

TREE = Path(__file__).parents[2]
COMPILER = shutil.which("c++")
SANDBOX = Engine(kind=RoomKind.SANDBOX)


@pytest.fixture
def declared() -> images.Declaration:
    return images.load(TREE / "containers" / "images.toml")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH has nothing but what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_what_is_missing_is_named_one_at_a_time(bare: Path, declared: images.Declaration) -> None:
    with pytest.raises(HostError, match=r"^git is not installed\. apt install git"):
        doctor.demand(SANDBOX, declared)
    put(bare, "git", "exit 0")
    with pytest.raises(HostError, match=r"no C\+\+ compiler: c\+\+ is not installed\. apt inst"):
        doctor.demand(SANDBOX, declared)
    put(bare, "c++", "echo c++ 12")
    doctor.demand(SANDBOX, declared)


def test_a_compiler_that_finds_no_libsodium_is_told(
    bare: Path, declared: images.Declaration
) -> None:
    put(bare, "git", "exit 0")
    lost = 'case "$*" in *-E*) echo "sodium.h: No such file" >&2; exit 1;; esac; echo c++ 12'
    put(bare, "c++", lost)
    with pytest.raises(HostError, match=r"no libsodium.*sodium\.h: No such.*libsodium-dev"):
        doctor.demand(SANDBOX, declared)


def test_a_compiler_may_be_several_words(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bare, "ccache", 'echo "through ccache: $*"')
    monkeypatch.setenv("CXX", "ccache g++")
    assert build.host_compiler() == "through ccache: g++ --version"
    put(bare, "ccache", "echo no g++ >&2; exit 1")
    with pytest.raises(HostError, match=r"ccache g\+\+ does not run: .*status 1: no g\+\+"):
        build.host_compiler()


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this machine")
def test_a_compiler_must_know_cxx20(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of an old one has no <span>: ours without its library is as it is."""
    monkeypatch.setenv("CXX", str(COMPILER))
    assert build.host_compiler()
    monkeypatch.setenv("CXX", f"{COMPILER} -nostdinc++")
    with pytest.raises(HostError, match=r"is too old: .*expected .*GCC 10 does, got .*span: No su"):
        build.host_compiler()
    found = {finding.what: finding for finding in doctor.examine(bare, ())}["C++ compiler"]
    assert not found.ok and found.found.startswith("the C++ compiler is too old: ")
    assert found.mend == "apt install g++ (10 or newer), or set CXX"


def test_a_python_that_makes_no_environments_is_told(bare: Path) -> None:
    """As Debian's is without its package python3.NN-venv."""
    lost = "import sys; sys.modules['ensurepip'] = None; exec(sys.argv[2])"
    put(bare, "python3.11", f'shift; exec {sys.executable} -I -c "{lost}" "$@"')
    found = {f.what: f for f in doctor.examine(bare, ("3.11",))}["Python 3.11"]
    assert not found.ok and "python3.11 makes no environments: ModuleNotFound" in found.found
    assert found.mend.startswith("apt install python3.11-venv")


def test_a_shim_that_does_not_run_is_no_python(bare: Path) -> None:
    put(bare, "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    (bare / "python3.10").symlink_to(sys.executable)
    found = {f.what: f for f in doctor.examine(bare, ("3.10", "3.11", "3.12"))}
    assert not found["Python 3.12"].ok and "command not found" in found["Python 3.12"].found
    assert found["Python 3.11"].found == "no python3.11 on PATH"
    assert found["Python 3.10"].ok
