"""A wheel by itself, a set, and what policy accepts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from broken_wheels.good import pure, renamed

from audit.facts import AUDIT
from qualify.audit import report
from qualify.audit.policy import Accepted
from qualify.errors import InputError


def clashing(place: Path) -> list[Path]:
    other = renamed(pure(), "other")
    other.entries["small/data.txt"] = b"other"
    other.entries["small/a.rej"] = b""
    return [pure().write(place), other.write(place)]


def ids(reports: list[report.Report]) -> list[list[str]]:
    return [[finding.id for finding in each.findings] for each in reports]


def test_each_by_itself_and_together(tmp_path: Path) -> None:
    paths = clashing(tmp_path)
    assert ids([report.audit(path, AUDIT) for path in paths]) == [[], ["stray-file"]]
    assert ids(report.audit_together(paths, AUDIT)) == [[], ["stray-file", "two-owners"]]
    assert ids(report.audit_together(paths[::-1], AUDIT)) == [["stray-file"], ["two-owners"]]


def test_of_what_is_beside_nothing_is_told(tmp_path: Path) -> None:
    one, other = clashing(tmp_path)
    (only,) = report.audit_together([one], AUDIT, beside=[other])
    assert [(f.id, f.wheel) for f in only.findings] == [("two-owners", one.name)]


def test_each_file_is_named_before_it_is_read(tmp_path: Path) -> None:
    one, other = clashing(tmp_path)
    read: list[Path] = []
    report.audit_together([one], AUDIT, beside=[other], reading=read.append)
    assert read == [other, one]


def test_two_files_of_one_name_are_no_set(tmp_path: Path) -> None:
    path = pure().write(tmp_path)
    with pytest.raises(InputError, match="different names"):
        report.audit_together([path], AUDIT, beside=[path])


@pytest.mark.parametrize(
    ("accepted", "stays"),
    [
        (Accepted(finding="stray-file", wheel="other-*", reason="a reason"), False),
        (Accepted(finding="stray-file", wheel="*", member="other/*", reason="a reason"), True),
        (Accepted(finding="stray-*", wheel="*", reason="a reason"), False),
    ],
)
def test_accepted(tmp_path: Path, accepted: Accepted, stays: bool) -> None:
    """What the patterns name, there."""
    policy = msgspec.structs.replace(AUDIT, accepted=(accepted,))
    found = report.audit(clashing(tmp_path)[1], policy)
    assert [f.id for f in found.findings] == ["stray-file"] * stays
    assert [(e.finding.id, e.reason) for e in found.accepted] == (
        [] if stays else [("stray-file", "a reason")]
    )


def test_what_is_told_has_a_bound(tmp_path: Path) -> None:
    made = pure()
    made.swap("METADATA", "Metadata-Version: 2.4", f"Metadata-Version: {'9' * 100_000}")
    (finding,) = report.audit(made.write(tmp_path), AUDIT).findings
    assert len(finding.got) == report.LONGEST
