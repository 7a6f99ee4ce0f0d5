"""What a machine lacks is said in one clear message, by the doctor and before a run starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qualify import build, doctor, images
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError

TREE = Path(__file__).parents[2]
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


def test_a_compiler_may_be_several_words(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bare, "ccache", 'echo "through ccache: $*"')
    monkeypatch.setenv("CXX", "ccache g++")
    assert build.host_compiler() == "through ccache: g++ --version"
    put(bare, "ccache", "echo no g++ >&2; exit 1")
    with pytest.raises(HostError, match=r"ccache g\+\+ does not run: .*status 1: no g\+\+"):
        build.host_compiler()


def test_a_shim_that_does_not_run_is_no_python(bare: Path) -> None:
    put(bare, "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    (bare / "python3.10").symlink_to(sys.executable)
    found = {f.what: f for f in doctor.examine(bare, ("3.10", "3.11", "3.12"))}
    assert not found["Python 3.12"].ok and "command not found" in found["Python 3.12"].found
    assert found["Python 3.11"].found == "no python3.11 on PATH"
    assert found["Python 3.10"].ok
