"""The programs that the wheels install start, answer, and say when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = ("emu-smi", "emu-diag", "emu-trace", "emud", "emu-as", "emu-objdump", "emu-fw")


def start(name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / name), *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )


@pytest.mark.check("gate7.install.programs", obligations=["I1"], kind="focused test")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    """A program lost its execute bit or its interpreter line on the way, and does not start."""
    done = start(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage" in (done.stdout + done.stderr).lower()


@pytest.mark.check("gate7.install.smi_reports", obligations=["I7", "Q2"], kind="focused test")
def test_smi() -> None:
    """`emu-smi` shows no device where there is one, or exits 0 where there is none."""
    done = start("emu-smi", "--json")
    assert done.returncode == 0, done.stderr
    assert "Emulated accelerator" in json.dumps(json.loads(done.stdout))
    without = start("emu-smi", EMU_PRIVATE="0", EMU_DEVICE_DIR="/nonexistent")
    assert without.returncode != 0
    assert "/nonexistent" in without.stdout + without.stderr


@pytest.mark.check("gate7.install.diag_sees_damage", obligations=["I7"], kind="focused test")
def test_diag() -> None:
    """`emu-diag` passes on a machine where nothing can work."""
    done = start("emu-diag", "--json", EMU_PRIVATE="0", EMU_DEVICE_DIR="/nonexistent")
    assert done.returncode in (1, 2), done.stdout
    steps = json.loads(done.stdout)
    assert "/nonexistent" in json.dumps(steps)
