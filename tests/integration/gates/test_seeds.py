"""Every check of every gate fails on a fault that was made for it: a check that can't is none."""

from __future__ import annotations

import posixpath
import tempfile
from pathlib import Path

import pytest

from qualify import gate, report
from qualify.outcome import Outcome
from qualify.pipeline import Prepared
from qualify.report import Report
from qualify.room import open_room

HERE = Path(__file__).parent
SUITES = HERE.parents[1] / "gates"
FOLDERS = sorted(path.name for path in SUITES.glob("gate*_*"))
ALONE = [
    "gate2.classifier.accuracy",
    "gate2.classifier.deterministic",
    "gate2.classifier.loss_curve",
    "gate2.classifier.no_fallback",
]
RUN_SECONDS = 1800  # as a gate has


def run_seeded(prepared: Prepared, folder: str, *options: str) -> Report:
    """The report of a gate of which each check had its fault."""
    with open_room(prepared.rooms[0]) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        suites = room.put(SUITES)
        if prepared.releases:
            here = [wheel.path for wheel in prepared.wheels]
            with tempfile.TemporaryDirectory() as scratch:
                releases = room.put(gate.lay_out(Path(scratch), here, prepared.releases))
            options = (*options, "--releases", releases)
        plugin = posixpath.dirname(room.put(HERE / "seeds", "/tmp/plugin"))
        argv = [room.python, "-m", "pytest", folder, "-p", "seeds", "--report", "report.jsonl"]
        done = room.run(
            [*argv, "-q", *options],
            timeout=RUN_SECONDS,
            cwd=suites,
            env={"PYTHONPATH": plugin, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.status == 1, done.stdout + done.stderr
        return report.parse(room.get(f"{suites}/report.jsonl"))


def unseen(found: Report) -> list[str]:
    """Checks of which no case failed."""
    failed = {line.id for line in found.attempts if line.outcome is Outcome.FAILED}
    return sorted({check.id for check in found.planned} - failed)


@pytest.mark.integration
@pytest.mark.timeout(RUN_SECONDS + 1800)
@pytest.mark.parametrize("folder", FOLDERS)
def test_each_check_fails_on_its_fault(prepared: Prepared, folder: str) -> None:
    found = run_seeded(prepared, folder)
    assert found.planned
    assert unseen(found) == []


@pytest.mark.integration
@pytest.mark.timeout(RUN_SECONDS + 1800)
@pytest.mark.parametrize("check", ALONE)
def test_a_check_of_the_classifier_fails_on_its_fault(prepared: Prepared, check: str) -> None:
    found = run_seeded(prepared, "gate2_eager", "--seed-alone", check)
    assert {planned.id for planned in found.planned} == {check}
    assert unseen(found) == []
