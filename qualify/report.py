"""Reads what a gate wrote down (the protocol of tests/gates/conftest.py) into frozen facts.

Strict: a line that is not of the protocol, an event out of order, a check that was not
planned, or an attempt that is missing is an EvidenceError, since a report that cannot be
read says nothing. One thing is tolerated, because a crash makes it: a last line without
its newline is dropped. A check that started and never ended becomes an attempt with the
outcome `error`; a planned check that nothing was heard of has no attempt, which is
`not run`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from qualify.errors import EvidenceError
from qualify.outcome import Outcome, StatementKind, worst

PROTOCOL = 1


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A check that the gate said it would run. `cases` are its parameter sets, `""` for none."""

    id: str
    obligations: tuple[str, ...]
    kind: StatementKind
    cases: tuple[str, ...]
    command: str


class Attempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run of one case of a check."""

    id: str
    case: str
    attempt: int
    outcome: Outcome
    seconds: float
    message: str
    detail: dict[str, Any]
    command: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one gate wrote. `end` is pytest's status, None where the gate did not reach its end."""

    gate: int | None = None
    device: str = ""
    faults: tuple[str, ...] = ()
    planned: tuple[Planned, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    end: int | None = None


class _Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="plan"):
    protocol: Literal[1]
    gate: int | None
    device: str
    faults: tuple[str, ...]
    checks: tuple[Planned, ...]


class _Start(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="start"
):
    id: str
    case: str
    attempt: int


class _Check(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="check"
):
    id: str
    case: str
    attempt: int
    outcome: Outcome
    seconds: float
    message: str
    detail: dict[str, Any]
    command: str


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="event", tag="end"):
    status: int


_Event = _Plan | _Start | _Check | _End
_decoder: msgspec.json.Decoder[_Event] = msgspec.json.Decoder(_Event)


def parse(data: bytes) -> Report:
    """The facts in a report's bytes. No bytes at all: a gate that died before it planned."""
    whole, _, _ = data.rpartition(b"\n")  # what follows the last newline was cut off by a crash
    events = [_decode(number, line) for number, line in enumerate(whole.splitlines(), 1)]
    if not events:
        return Report()
    plan, rest = events[0], events[1:]
    if not isinstance(plan, _Plan):
        raise _out_of_order(1, "the plan", plan)
    cases = {(check.id, case) for check in plan.checks for case in check.cases}
    if len(cases) != sum(len(check.cases) or 1 for check in plan.checks):
        raise EvidenceError("report, line 1: a check is planned twice, or without a case")
    commands = {check.id: check.command for check in plan.checks}
    attempts: list[Attempt] = []
    running: _Start | None = None
    end: int | None = None
    for number, event in enumerate(rest, 2):
        if end is not None:
            raise _out_of_order(number, "nothing after the end", event)
        match event:
            case _Start(id=id, case=case) if running is None and (id, case) in cases:
                before = sum((a.id, a.case) == (id, case) for a in attempts)
                if event.attempt != before + 1:
                    raise _out_of_order(number, f"attempt {before + 1} of {id}", event)
                running = event
            case _Check() if running == _Start(event.id, event.case, event.attempt):
                attempts.append(Attempt(**msgspec.structs.asdict(event)))
                running = None
            case _End(status=status) if running is None or status != 0:
                end = status
            case _:
                raise _out_of_order(number, "a planned check's start, or its end", event)
    if running is not None:
        attempts.append(
            Attempt(
                id=running.id,
                case=running.case,
                attempt=running.attempt,
                outcome=Outcome.ERROR,
                seconds=0.0,
                message="the check started and never ended: its process went away",
                detail={},
                command=commands[running.id],
            )
        )
    return Report(
        gate=plan.gate,
        device=plan.device,
        faults=plan.faults,
        planned=plan.checks,
        attempts=tuple(attempts),
        end=end,
    )


def case_outcomes(check: Planned, attempts: Iterable[Attempt]) -> tuple[Outcome, ...]:
    """The outcome of each case of `check`: the worst of its attempts, or `not run`."""
    of_check = [attempt for attempt in attempts if attempt.id == check.id]
    return tuple(
        worst(attempt.outcome for attempt in of_check if attempt.case == case)
        for case in check.cases
    )


def _decode(number: int, line: bytes) -> _Event:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EvidenceError(
            f"report, line {number}: {error}",
            expected=f"an event of gate protocol {PROTOCOL}",
            got=repr(line[:80].decode(errors="replace")),
        ) from error


def _out_of_order(number: int, expected: str, event: msgspec.Struct) -> EvidenceError:
    return EvidenceError(f"report, line {number}", expected=expected, got=repr(event)[:200])
