"""A room to look into: as a gate finds it, and gone afterwards."""

from __future__ import annotations

import pytest
from engines import TREE

from qualify import pipeline
from qualify.errors import InputError
from qualify.pipeline import Prepared

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
CHECK = "gate0_health/test_identity.py"


@pytest.mark.parametrize("number", [0, 1])
def test_the_command_of_a_check_runs_as_in_its_gate(prepared: Prepared, number: int) -> None:
    spec = prepared.rooms[number]
    with pipeline.visited(TREE, prepared, spec.facts.name) as (room, suites):
        words = [room.python, "-m", "pytest", f"{suites}/{CHECK}", "--device", "emu", "-q"]
        done = room.run(words, cwd=suites, timeout=300)
        assert done.ok, done.stdout
        probe = [room.python, "-c", "raise SystemExit(7)"]
        assert room.run(probe, cwd=suites, timeout=60).status == 7


def test_an_unknown_room_is_told(prepared: Prepared) -> None:
    known = ", ".join(spec.facts.name for spec in prepared.rooms)
    with (
        pytest.raises(InputError, match=f"unknown room: expected {known}, got 'attic'"),
        pipeline.visited(TREE, prepared, "attic"),
    ):
        pass
