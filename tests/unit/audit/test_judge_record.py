"""Rows that are right without a hash, and findings that would only be echoes."""

from __future__ import annotations

from broken_wheels.good import FOLDER, pure

from audit.facts import facts_of
from qualify.audit import judge_record


def test_signatures_and_record_itself_need_no_row() -> None:
    made = pure()
    made.entries |= {f"{FOLDER}/RECORD.jws": b"{}", f"{FOLDER}/RECORD.p7s": b"x"}
    made.record = lambda rows: [row for row in rows if "/RECORD" not in row]
    assert list(judge_record.judge(facts_of(made))) == []


def test_a_row_that_cannot_be_read_is_told_once() -> None:
    """And not as a file without a row, too."""
    made = pure()
    made.record = lambda rows: [rows[0].partition(",")[0], *rows[1:]]
    (finding,) = judge_record.judge(facts_of(made))
    assert (finding.id, finding.line, finding.member) == ("record-syntax", 1, f"{FOLDER}/RECORD")


def test_each_file_without_a_row_is_named() -> None:
    made = pure()
    made.record = lambda rows: rows[2:]
    found = [(finding.id, finding.member) for finding in judge_record.judge(facts_of(made))]
    assert found == [
        ("record-unlisted", "small/__init__.py"),
        ("record-unlisted", "small/data.txt"),
    ]


def test_of_a_wheel_without_record_nothing_is_said() -> None:
    made = pure()
    made.record = lambda rows: []
    assert list(judge_record.judge(facts_of(made))) == []
