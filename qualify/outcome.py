"""The seven outcomes of a check. Only `passed` passes.

They are kept apart because each asks for another answer: `failed` (the check ran
and its claim is wrong), `error` (it could not find out, or its process ended in
it), `skipped`, `expected failure`, `unexpected pass`, and `not run` (planned, and
nothing was heard of it).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Outcome(enum.Enum):
    """One outcome. Members stand in order of severity, worst first."""

    ERROR = "error"
    FAILED = "failed"
    UNEXPECTED_PASS = "unexpected pass"
    NOT_RUN = "not run"
    SKIPPED = "skipped"
    EXPECTED_FAILURE = "expected failure"
    PASSED = "passed"


class StatementKind(enum.Enum):
    """The four kinds of statement; they are never mixed."""

    SPECIFICATION = "specification"
    INSPECTION = "inspection"
    FOCUSED_TEST = "focused test"
    WORKLOAD_RESULT = "workload result"


_SEVERITY = {outcome: rank for rank, outcome in enumerate(Outcome)}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The most severe of `outcomes`; nothing at all is `not run`."""
    return min(outcomes, key=_SEVERITY.__getitem__, default=Outcome.NOT_RUN)
