"""Makes the question that a verdict answers from the evidence that is there.

The pipeline knows what it just built and asks about that. Whoever holds only an evidence
folder, and perhaps wheels, asks here.
"""

from __future__ import annotations

from collections.abc import Mapping

from qualify import evidence
from qualify.claim import Asked, Question
from qualify.errors import EvidenceError
from qualify.index import Entry, Index
from qualify.matrix import Cell, Tier, gate_of


def from_index(
    index: Index,
    records: Mapping[str, bytes],
    *,
    cell: Cell,
    tier: Tier,
    wheels: dict[str, str] | None,
) -> Question:
    """Ask about `wheels` (default: those of the cell's last record) with the newest inputs.

    In each room, the last entry of a gate says which inputs are asked for. If no record is
    about `wheels`, the question names the records that there are, and the verdict will say
    that they are about something else.
    """
    subjects = {
        entry.record: subject
        for entry in index.entries
        if entry.cell == cell.id and (subject := _wheels(entry, records)) is not None
    }
    of_cell = [entry for entry in index.entries if entry.cell == cell.id]
    if wheels is None:
        known = [subjects[entry.record] for entry in of_cell if entry.record in subjects]
        wheels = known[-1] if known else {}
    about = [entry for entry in of_cell if subjects.get(entry.record, wheels) == wheels]
    last = {(entry.room, entry.gate): entry.key for entry in about or of_cell}
    singles = {gate_of(check) for check in tier.checks}
    return Question(
        tier=tier.name,
        cell=cell,
        wheels=wheels,
        asked=tuple(
            Asked(room, gate, key)
            for (room, gate), key in sorted(last.items())
            if gate in tier.gates or gate in singles
        ),
    )


def _wheels(entry: Entry, records: Mapping[str, bytes]) -> dict[str, str] | None:
    """What an entry's record is about, or None where the record can't say."""
    try:
        return evidence.decode(records[entry.record]).wheels
    except (KeyError, EvidenceError):
        return None
