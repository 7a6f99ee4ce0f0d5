"""Every defect is found by its own id and nothing else, and nothing is found in its twin."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from broken_wheels import sets
from broken_wheels.corpus import DEFECTS, audited, written
from broken_wheels.defect import Defect, policy
from broken_wheels.good import Wheel
from broken_wheels.sets import SetDefect
from qualify.audit import report
from qualify.audit.finding import Finding, kinds

SETS = sets.DEFECTS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_defect(defect: Defect, tmp_path: Path) -> None:
    path = written(defect.bad(), tmp_path)
    found = audited(defect, path)
    assert {finding.id for finding in found} == {defect.id}, found
    assert all(finding.got for finding in found)
    assert all(is_there(finding, path) for finding in found if finding.offset is not None), found


def is_there(finding: Finding, path: Path) -> bool:
    """Whether the offset can be one of what it is said to be in: a member, or the wheel, where a
    member's is that of its entry in the directory, or of the packed bytes that are wrong."""
    assert finding.offset is not None
    if finding.in_wheel:
        data = path.read_bytes()
        entry = data[finding.offset :].startswith(b"PK\1\2")
        packed = finding.id == "zip-deflate" and finding.offset < data.index(b"PK\1\2")
        return entry or packed if finding.member else finding.offset <= len(data)
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo(finding.member).file_size
    return finding.offset <= size or finding.id == "elf-damaged"  # what is past its end


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_twin(defect: Defect, tmp_path: Path) -> None:
    assert audited(defect, written(defect.good(), tmp_path)) == ()


def findings_together(wheels: Sequence[Wheel], place: Path) -> dict[str, tuple[Finding, ...]]:
    """By the wheel that they are told of."""
    paths = [wheel.write(place) for wheel in wheels]
    return {Path(r.path).name: r.findings for r in report.audit_together(paths, policy())}


@pytest.mark.parametrize("defect", SETS, ids=lambda defect: defect.name)
def test_set_defect(defect: SetDefect, tmp_path: Path) -> None:
    """And only together: of each wheel by itself nothing is found."""
    wheels = defect.bad()
    found = findings_together(wheels, tmp_path)
    assert {finding.id for each in found.values() for finding in each} == {defect.id}, found
    assert found[wheels[-1].name], found


@pytest.mark.parametrize("defect", SETS, ids=lambda defect: defect.name)
def test_set_twin(defect: SetDefect, tmp_path: Path) -> None:
    assert set(findings_together(defect.good(), tmp_path).values()) == {()}


def test_every_kind_has_a_defect() -> None:
    assert {*(defect.id for defect in DEFECTS), *(defect.id for defect in SETS)} == set(kinds())


def test_names_tell_defects_apart() -> None:
    names = [*(defect.name for defect in DEFECTS), *(defect.name for defect in SETS)]
    assert sorted(names) == sorted(set(names))
