"""The frame of emu-diag: steps in order, each with an outcome.

A step is a function that gives figures, or raises `Finding` (or EmuError) with cause and mend. A
step whose prerequisite did not pass is not run. A step that does not end in its time is failed, and
no further step of this process is run, since the runtime may be stuck.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from emu_runtime import bounded
from emu_runtime.errors import EmuError

Figures = dict[str, object]


_Choice = TypeVar("_Choice")


@dataclass(frozen=True)
class Plan:
    """What was asked for: which device, how thorough, and how much of its memory (None: all)."""

    device: int = 0
    level: int = 1
    memory_bytes: int | None = None

    def pick(self, seconds: _Choice, minute: _Choice, long: _Choice) -> _Choice:
        """One for each level."""
        return (seconds, minute, long)[self.level - 1]


class Outcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


class Finding(Exception):
    """What a step found to be wrong, and what mends it."""

    def __init__(self, cause: str, mend: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.mend = mend


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], Figures]
    needs: tuple[str, ...] = ()
    seconds: float = 60.0  # at most


@dataclass(frozen=True)
class Result:
    name: str
    outcome: Outcome
    seconds: float
    cause: str = ""
    mend: str = ""
    figures: Figures = field(default_factory=dict)


def run(steps: Sequence[Step], tell: Callable[[Result], None]) -> list[Result]:
    """Run the steps in order; `tell` gets each result as it comes."""
    results: dict[str, Result] = {}
    stuck = ""
    for step in steps:
        missing = [name for name in step.needs if results[name].outcome is not Outcome.PASSED]
        if stuck or missing:
            reason = f"'{stuck}' did not end" if stuck else f"needs '{missing[0]}'"
            result = Result(step.name, Outcome.NOT_RUN, 0.0, reason)
        else:
            result, ended = _run_one(step)
            stuck = "" if ended else step.name
        results[step.name] = result
        tell(result)
    return list(results.values())


def _run_one(step: Step) -> tuple[Result, bool]:
    """The result, and whether the step ended in its time."""
    begin = time.monotonic()
    call = bounded.Call(step.run)
    try:
        figures = call.result(step.seconds)
    except bounded.LateError as late:
        return _failed(step, begin, str(late), "Look at the device's log and end emud"), False
    except Finding as finding:
        return _failed(step, begin, finding.cause, finding.mend), True
    except EmuError as error:
        return _failed(step, begin, error.cause, error.mend), True
    except Exception as error:  # a step must not end the diagnosis
        return _failed(step, begin, f"{type(error).__name__}: {error}", ""), True
    return Result(step.name, Outcome.PASSED, time.monotonic() - begin, figures=figures), True


def _failed(step: Step, begin: float, cause: str, mend: str) -> Result:
    return Result(step.name, Outcome.FAILED, time.monotonic() - begin, cause, mend)
