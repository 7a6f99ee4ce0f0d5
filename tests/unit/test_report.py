"""Reports are read strictly: what a crash leaves is understood, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from samples import DETAIL, check, events, jsonl

from qualify import report
from qualify.errors import EvidenceError
from qualify.outcome import Outcome, worst

START = {"event": "start", "id": "gate0.a.one", "case": "", "attempt": 1}


def lines(**more: Any) -> list[dict[str, Any]]:
    return events(check("gate0.a.one"), check("gate0.a.two", "skipped"), **more)


def test_whole_report() -> None:
    facts = report.parse(jsonl(lines()))
    assert (facts.gate, facts.device, facts.end) == (0, "emu", 0)
    assert [attempt.outcome for attempt in facts.attempts] == [Outcome.PASSED, Outcome.SKIPPED]
    assert facts.attempts[0].detail == DETAIL


def test_no_bytes_are_a_gate_that_never_planned() -> None:
    assert report.parse(b"") == report.parse(b'{"event":"pl') == report.Report()


def test_a_torn_last_line_is_dropped() -> None:
    whole = jsonl(lines())
    torn = report.parse(whole[:-5])
    assert torn.end is None
    assert torn.attempts == report.parse(whole).attempts


def test_every_cut_of_a_report_is_read_or_refused_as_a_crash() -> None:
    whole = jsonl(lines())
    for cut in range(len(whole)):
        assert report.parse(whole[:cut]).end is None


def test_a_check_that_never_ended_is_an_error() -> None:
    facts = report.parse(jsonl([*lines()[:1], START]))
    assert facts.attempts[0].outcome is Outcome.ERROR
    assert "went away" in facts.attempts[0].message
    assert facts.attempts[0].command == "python -m pytest gate0.a.one"
    outcomes = [report.case_outcomes(c, facts.attempts) for c in facts.planned]
    assert outcomes == [(Outcome.ERROR,), (Outcome.NOT_RUN,)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda made: made[1:], "expected the plan"),
        (lambda made: [*made, START], "nothing after the end"),
        (lambda made: [*made[:3], made[2], *made[3:]], "a planned check's start"),
        (lambda made: [made[0], *made[2:]], "a planned check's start"),
        (lambda made: [made[0], START, *made[1:]], "a planned check's start"),
        (lambda made: [made[0], START, made[-1]], "a planned check's start"),
        (lambda made: [made[0], {**START, "id": "gate0.x.y"}], "a planned check's start"),
        (lambda made: [made[0], {**START, "case": "z"}], "a planned check's start"),
        (lambda made: [made[0], {**START, "attempt": 2}], "attempt 1 of gate0.a.one"),
        (lambda made: [made[0], {"event": "party"}], "Invalid value 'party'"),
        (lambda made: [made[0], {**START, "extra": 1}], "unknown field `extra`"),
        (lambda made: [{**made[0], "protocol": 2}], "protocol"),
        (lambda made: [{**made[0], "checks": made[0]["checks"] * 2}], "planned twice"),
        (lambda made: [{**made[0], "checks": [{**made[0]["checks"][0], "cases": []}]}], "a case"),
        (lambda made: [*made[:2], {**made[2], "outcome": "fine"}], "Invalid enum value 'fine'"),
    ],
)
def test_what_is_not_of_the_protocol_is_refused(change: Any, expected: str) -> None:
    with pytest.raises(EvidenceError, match="report, line") as caught:
        report.parse(jsonl(change(lines())))
    assert expected in str(caught.value)


def test_a_detail_that_nests_too_deep_is_refused() -> None:
    text = jsonl(events(check("gate0.a.one", detail={"deep": "here"})))
    with pytest.raises(EvidenceError, match="report, line 3: maximum recursion depth"):
        report.parse(text.replace(b'"here"', b"[" * 100_000 + b"]" * 100_000))


def test_garbage_is_refused() -> None:
    with pytest.raises(EvidenceError, match="line 1"):
        report.parse(b"not json\n")


def test_the_worst_of_several() -> None:
    assert worst([]) is Outcome.NOT_RUN
    assert worst([Outcome.PASSED, Outcome.SKIPPED]) is Outcome.SKIPPED
    assert worst(Outcome) is Outcome.ERROR
    assert worst([Outcome.PASSED]) is Outcome.PASSED
