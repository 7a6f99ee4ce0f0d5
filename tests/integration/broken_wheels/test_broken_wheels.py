"""Every defect is found by its own id and nothing else, and nothing is found in its twin."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from broken_wheels import archives, binaries, texts
from broken_wheels.defect import Defect, policy
from broken_wheels.good import Wheel
from qualify.audit import report
from qualify.audit.finding import Finding, kinds

DEFECTS = [*archives.DEFECTS, *texts.DEFECTS, *binaries.DEFECTS]


def findings(wheel: Wheel, defect: Defect, place: Path) -> tuple[Finding, ...]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name", UserWarning)
        path = wheel.write(place)
    return report.audit(path, defect.policy(policy())).findings


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_defect(defect: Defect, tmp_path: Path) -> None:
    found = findings(defect.bad(), defect, tmp_path)
    assert {finding.id for finding in found} == {defect.id}, found
    assert all(finding.got for finding in found)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_twin(defect: Defect, tmp_path: Path) -> None:
    assert findings(defect.good(), defect, tmp_path) == ()


def test_every_kind_has_a_defect() -> None:
    assert {defect.id for defect in DEFECTS} == set(kinds())


def test_names_tell_defects_apart() -> None:
    names = [defect.name for defect in DEFECTS]
    assert sorted(names) == sorted(set(names))
