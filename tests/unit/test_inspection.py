"""Wheels are inspected once for the same bytes and policy, and policy says what denies them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from broken_wheels.good import pure, renamed

from qualify import inspection
from qualify.audit import baseline
from qualify.audit.finding import kinds
from qualify.audit.report import Report
from qualify.build import Wheel
from qualify.content import sha256_of
from qualify.stage import Stages
from qualify.wheelhouse import Closure

TREE = Path(__file__).parents[2]


@pytest.fixture
def stages(tmp_path: Path) -> Stages:
    return Stages(tmp_path / "cache")


def audited(stages: Stages, folder: Path, *wheels: Path, **rules: Any) -> list[Report]:
    made = tuple(
        Wheel(path=path, sha256=sha256_of(path), name="small", version="1.0") for path in wheels
    )
    audit = msgspec.structs.replace(baseline.read(TREE), **rules)
    there = Closure(
        folder=folder,
        python="3.11",
        sha256=str(sorted(folder.iterdir())),
        torch="2.13.0+cpu",
        torch_wheel=Path(),
    )
    return inspection.audit_wheels(stages, audit, made, there)


def test_wheels_are_audited_once_beside_what_is_installed_with_them(
    tmp_path: Path, stages: Stages
) -> None:
    """Of the others nothing is told but what they do to ours."""
    (tmp_path / "wheelhouse").mkdir()
    ours, theirs = pure(), renamed(pure(), "other")
    theirs.record = lambda rows: rows[1:]
    path = ours.write(tmp_path)
    for _ in range(2):
        assert [r.findings for r in audited(stages, tmp_path / "wheelhouse", path)] == [()]
    assert [output.reused for output in stages.timings] == [False, True]
    theirs.entries["small/data.txt"] = b"theirs"
    theirs.write(tmp_path / "wheelhouse")
    (report,) = audited(stages, tmp_path / "wheelhouse", path)
    assert [(f.id, f.wheel) for f in report.findings] == [("two-owners", path.name)]
    assert not stages.timings[-1].reused


def test_policy_says_which_findings_deny(tmp_path: Path, stages: Stages) -> None:
    (tmp_path / "wheelhouse").mkdir()
    bad = pure()
    bad.entries |= {"small/a.rej": b"", "small/b.rej": b""}
    reports = audited(stages, tmp_path / "wheelhouse", bad.write(tmp_path))
    audit = baseline.read(TREE)
    (denial,) = inspection.denials(reports, audit)
    assert denial.what == (f"audit: stray-file in {bad.name}: small/a.rej: a.rej and 1 more")
    assert denial.mend == kinds()["stray-file"].mend
    lenient = msgspec.structs.replace(audit, denies=("error",))
    assert inspection.denials(reports, lenient) == ()
