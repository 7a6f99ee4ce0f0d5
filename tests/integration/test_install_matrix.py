"""The install matrix as a user runs it, with a gate 7 of one check: real rooms, and one that no
engine can make."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from checkout import copied
from engines import PYTHON, TREE, engine_or_skip

from qualify import install_matrix, installs, pipeline, process
from qualify.errors import HostError, InputError
from qualify.matrix import Layer
from qualify.stage import Stages, cache_root

pytestmark = pytest.mark.integration

TODAY = datetime.date(2026, 1, 1)
CELL = f"emu-a0-py{PYTHON}"
CHECK = "gate7.install.fresh"
NOWHERE = """
[[room]]
name = "nowhere"
os_id = "debian"
os_version = "99"
suite = "nowhere"
glibc = "2.99"
python = "3.99"
packages = ["ca-certificates"]
"""
SUITE = f'''
import importlib.metadata
import os
import pytest

@pytest.mark.check("{CHECK}", obligations=["I1"], kind="focused test")
def test_fresh() -> None:
    assert importlib.metadata.version("torch-emu")
    assert os.getuid() != 4321, "nobody has this name"
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout whose gate 7 is one check, which fails in a nameless room, and whose matrix has a
    room that cannot be made."""
    tree = copied(tmp_path / "tree")
    suite = tree / "tests" / "gates" / "gate7_release"
    for path in suite.glob("*.py"):
        path.unlink()
    (suite / "test_fresh.py").write_text(SUITE)
    gates = tree / "matrix" / "gates.toml"
    text, count = re.subn(r' *"gate7\.(?!install\.fresh")[^"]+",\n', "", gates.read_text())
    assert count > 40
    gates.write_text(text)
    declared = tree / "containers" / "images.toml"
    declared.write_text(declared.read_text().replace("[[setting]]", f"{NOWHERE}\n[[setting]]", 1))
    matrix_of(tree, "nowhere", "debian12+nameless")
    return tree


def matrix_of(tree: Path, *rooms: str) -> None:
    cells = tree / "matrix" / "cells.toml"
    listed = ", ".join(f'"{room}"' for room in rooms)
    before = cells.read_text().partition("[installs]")[0]
    cells.write_text(f'{before}[installs]\n"{CELL}" = [{listed}]\n')


def run(tree: Path, stages: Stages, room: str = "docker") -> installs.Report:
    return install_matrix.install_everywhere(
        tree, tree.parent / "evidence", stages, pythons=(PYTHON,), room=room, today=TODAY
    )


@pytest.mark.timeout(1800)
def test_a_room_that_cannot_be_made_leaves_the_others(tree: Path, stages: Stages) -> None:
    engine_or_skip("docker")
    report = run(tree, stages)
    *own, nowhere, nameless = report.installed
    assert {each.room for each in own} == {"debian12", "debian13"}
    assert all(each.claim for each in own), report
    assert (nowhere.room, nowhere.verdict) == ("nowhere", None)
    assert "mmdebstrap could not make nowhere" in nowhere.trouble
    assert nameless.verdict is not None
    (reason,) = nameless.verdict.reasons
    assert (reason.check, reason.room) == (CHECK, "debian12+nameless")
    check_is_seen_again(tree, reason.mend)
    again = run(tree, stages)
    assert [each.reused for each in again.installed] == [True, True, False, True]
    made = pipeline.prepare(tree, tree.parent / "evidence", stages, python=PYTHON, room="docker")
    gates = made.matrix.gates
    plan = pipeline.plan_gates(
        tree,
        gates,
        gates.tier("experimental"),
        made.cell,
        made.wheels,
        made.closure,
        made.rooms,
        made.releases,
    )
    for inputs in plan:
        if inputs.gate.number == 7:
            pipeline.run_gate(inputs, tree.parent / "evidence", stages)
            assert stages.timings[-1].reused, "a record of the install matrix stands for the run"


def check_is_seen_again(tree: Path, mend: str) -> None:
    """The command that a refusal prints does what it says."""
    said, _, words = mend.partition(": qualify shell ")
    assert said == "to see it again"
    options, _, command = words.partition(" -- ")
    place = ["--tree", tree, "--evidence", tree.parent / "evidence"]
    shell = [sys.executable, "-m", "qualify", "shell", *shlex.split(options), *place]
    env = {**os.environ, "QUALIFY_CACHE": str(cache_root(TREE))}
    done = process.run([*shell, "--", *shlex.split(command)], cwd=TREE, env=env, timeout=900)
    assert done.status == 1, done
    assert "nobody has this name" in done.stdout


def test_a_name_that_no_room_has_is_told_before_anything_is_built(
    tree: Path, stages: Stages
) -> None:
    engine_or_skip("docker")
    matrix_of(tree, "debian12+root", "debian12+rot")
    told_before_the_work(tree, stages, "docker", InputError, r"unknown room 'debian12\+rot'")


def test_without_images_it_is_told_before_anything_is_built(tree: Path, stages: Stages) -> None:
    engine_or_skip("sandbox")
    told_before_the_work(tree, stages, "sandbox", HostError, "expected a container engine")


def told_before_the_work(
    tree: Path, stages: Stages, room: str, kind: type[Exception], says: str
) -> None:
    before = len(stages.timings)
    with pytest.raises(kind, match=says):
        run(tree, stages, room)
    assert {output.name for output in stages.timings[before:]} <= {"interpreter"}


def test_denied_wheels_are_refused_as_by_a_run(tree: Path, stages: Stages) -> None:
    policy = tree / "matrix" / "policy.toml"
    text = policy.read_text()
    assert text.count("largest_bytes = 4_000_000") == 1
    policy.write_text(text.replace("largest_bytes = 4_000_000", "largest_bytes = 4_000"))
    engine_or_skip("docker")
    report = run(tree, stages)
    (denied,) = report.installed
    assert not report.complete and denied.room == "" and denied.verdict is not None
    (reason,) = denied.verdict.reasons
    assert reason.layer is Layer.PACKAGE and reason.owner
    assert reason.what.startswith("audit: size-over in emu_driver_shim-0.1.0-py3-none-")
    assert not (tree.parent / "evidence" / "records").exists()
