"""Every defect is found by its own id and nothing else, and nothing is found in its twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from broken_wheels.corpus import DEFECTS, audited, written
from broken_wheels.defect import Defect
from qualify.audit.finding import kinds


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_defect(defect: Defect, tmp_path: Path) -> None:
    found = audited(defect, written(defect.bad(), tmp_path))
    assert {finding.id for finding in found} == {defect.id}, found
    assert all(finding.got for finding in found)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_twin(defect: Defect, tmp_path: Path) -> None:
    assert audited(defect, written(defect.good(), tmp_path)) == ()


def test_every_kind_has_a_defect() -> None:
    assert {defect.id for defect in DEFECTS} == set(kinds())


def test_names_tell_defects_apart() -> None:
    names = [defect.name for defect in DEFECTS]
    assert sorted(names) == sorted(set(names))
