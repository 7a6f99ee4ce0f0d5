"""A room to look into: as a gate finds it, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines import PYTHON, TREE, engine_or_skip

from qualify import pipeline
from qualify.errors import InputError
from qualify.pipeline import Prepared
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
CHECK = "gate0_health/test_identity.py"


@pytest.mark.parametrize("number", [0, 1])
def test_the_command_of_a_check_runs_as_in_its_gate(prepared: Prepared, number: int) -> None:
    with pipeline.visited(TREE, prepared, prepared.rooms[number]) as (room, suites):
        words = [room.python, "-m", "pytest", f"{suites}/{CHECK}", "--device", "emu", "-q"]
        done = room.run(words, cwd=suites, timeout=300)
        assert done.ok, done.stdout
        probe = [room.python, "-c", "raise SystemExit(7)"]
        assert room.run(probe, cwd=suites, timeout=60).status == 7


def test_a_room_of_the_install_matrix_is_as_its_gate_finds_it(
    stages: Stages, tmp_path: Path
) -> None:
    """Sealed, too: a check that fails on a read-only root fails here as it did there."""
    kind = engine_or_skip("docker").kind.value
    name = "debian12+read-only"
    made = pipeline.prepare(TREE, tmp_path, stages, python=PYTHON, room=kind, named=name)
    (spec,) = made.rooms
    assert spec.facts.name == name
    with pipeline.visited(TREE, made, spec) as (room, suites):
        refused = room.run(["touch", "/opt/more"], timeout=60, user="root")
        assert "Read-only file system" in refused.stderr
        words = [room.python, "-m", "pytest", f"{suites}/{CHECK}", "--device", "emu", "-q"]
        done = room.run(words, cwd=suites, timeout=300)
        assert done.ok, done.stdout


@pytest.mark.parametrize(
    ("kind", "says"),
    [("docker", "unknown room 'attic'"), ("sandbox", "unknown room: .*got 'attic'")],
)
def test_an_unknown_room_is_told(stages: Stages, tmp_path: Path, kind: str, says: str) -> None:
    engine_or_skip(kind)
    before = len(stages.timings)
    with pytest.raises(InputError, match=says):
        pipeline.prepare(TREE, tmp_path, stages, python=PYTHON, room=kind, named="attic")
    made = {output.name for output in stages.timings[before:]}
    assert made <= {"interpreter"}, "before anything is built"
