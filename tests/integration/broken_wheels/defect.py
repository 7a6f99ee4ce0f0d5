"""A row of the table: a wheel that has one defect, and its twin that has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import msgspec

from broken_wheels.good import Wheel, pure
from qualify.audit import baseline
from qualify.audit.archive import Limits
from qualify.audit.policy import Audit

TREE = Path(__file__).parents[3]


def policy() -> Audit:
    """The repository's own, with limits that a small wheel can reach."""
    audit = baseline.read(TREE)
    limits = msgspec.structs.replace(audit.limits, ratio_above=1_000_000, text_bytes=1_000_000)
    return msgspec.structs.replace(audit, limits=limits)


@dataclasses.dataclass(frozen=True)
class Defect:
    """`case` tells apart the defects that one kind of finding is for."""

    id: str
    bad: Callable[[], Wheel]
    good: Callable[[], Wheel] = pure
    case: str = ""
    policy: Callable[[Audit], Audit] = lambda audit: audit

    @property
    def name(self) -> str:
        return f"{self.id}-{self.case}" if self.case else self.id


def changed(
    change: Callable[[Wheel], object], start: Callable[[], Wheel] = pure
) -> Callable[[], Wheel]:
    def make() -> Wheel:
        wheel = start()
        change(wheel)
        return wheel

    return make


def text(name: str, old: str, new: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.swap(name, old, new))


def limited(**limits: int) -> Callable[[Audit], Audit]:
    def change(audit: Audit) -> Audit:
        kept = msgspec.structs.asdict(audit.limits)
        return msgspec.structs.replace(audit, limits=Limits(**{**kept, **limits}))

    return change
