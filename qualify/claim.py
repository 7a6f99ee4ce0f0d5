"""What is asked and what is answered: the values that `qualify.verdict.decide` takes and gives."""

from __future__ import annotations

import datetime

import msgspec

from qualify.engine import RoomKind
from qualify.matrix import Cell, Layer


class Asked(msgspec.Struct, frozen=True, order=True):
    """Evidence that the question rests on: a room, a gate, and the digest of its inputs."""

    room: str
    gate: int
    key: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """May `cell`, as exactly these `wheels` (file name to sha256), be claimed at `tier`?"""

    tier: str
    cell: Cell
    wheels: dict[str, str]
    asked: tuple[Asked, ...]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a claim is refused: where, what, whose it is to change, and what mends it."""

    layer: Layer
    owner: str
    what: str
    mend: str
    gate: int | None = None
    check: str = ""
    room: str = ""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """What an inspection of the wheels' bytes found that the policy denies, and what mends it.

    That there is none shows nothing: an inspection never grants.
    """

    what: str
    mend: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one gate in one room. Waived checks stand in their outcome's count too."""

    gate: int
    name: str
    room: str = ""
    kind: RoomKind | None = None
    os: str = ""
    asked_for: bool
    built: bool
    planned: int = 0
    passed: int = 0
    failed: int = 0
    error: int = 0
    skipped: int = 0
    expected_failure: int = 0
    unexpected_pass: int = 0
    not_run: int = 0
    waived: int = 0
    records: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, or a refusal with its reasons. `ceiling` is the best tier its rooms allow."""

    claim: bool
    tier: str
    cell: Cell
    wheels: dict[str, str]
    ceiling: str
    rooms: tuple[str, ...]
    rows: tuple[Row, ...]
    reasons: tuple[Reason, ...]
    today: datetime.date
    index_head: str
    key_id: str
