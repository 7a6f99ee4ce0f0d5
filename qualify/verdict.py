"""Decides a claim from records, index, waivers and policy. No file, no network, no clock.

The rules, in order. Each one that does not hold is a reason, and one reason refuses.

 1. The index is whole: chained, signed by a key that the policy trusts, and no line follows
    those that the signed head counts.
 2. Every record that the index names is there, and its bytes have the digest that the
    index names.
 3. Only records that the index names count, and of those only the ones that were asked for:
    this room, this gate, these inputs. All records of the same inputs count, so that a check
    that fails once and passes once has failed; but a record of a gate that did not reach its
    end (a killed room, a full disk) gives way to one that did, unless a check of it went
    wrong by itself.
 4. A record is typed, consistent in itself, and about exactly the wheels, cell, gate and
    room that it was asked for. Which images a cell has is told by its rooms, and is for rule 9.
 5. `emulated` evidence never satisfies a claim about hardware, nor the other way round.
 6. The gate reached its end, as its process's status says too, all its files could be
    collected, and it planned at least one check.
 7. Every check that the matrix requires of the gate was planned.
 8. Every planned check passed in every case, or a waiver that is live today turns exactly
    its outcome. Only `expected failure` and `skipped` can be waived.
 9. What the cell says of the device, its machine and its images is what the checks and the
    rooms found, and all gates of a room ran in the same one.
10. Every obligation of the tier is shown, in every room, by a passed check whose kind of
    statement may carry a claim.
11. Enough clean rooms agree, on enough distinct operating systems. A room of a kind that the
    tier does not take does not count: that is the ceiling of what it can show.
12. A gate that the tier asks for whole and that is not built is `not run`, and refuses,
    whatever some of its checks have shown.
13. An inspection of the wheels found nothing that the policy denies. With such a finding no gate
    has to be asked for, and what that leaves unshown is its echo.

Nothing is a claim unless every rule holds; so to take evidence away never helps. A reason
that would only be the echo of another (a room without evidence shows no obligation) is left
out where that other is given.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from qualify import agreement, evidence
from qualify.agreement import Disagreement
from qualify.claim import Asked, Denial, Question, Reason, Row, Verdict
from qualify.errors import EvidenceError
from qualify.evidence import Record
from qualify.index import Entry, Index
from qualify.matrix import Gate, Gates, Layer, Policy, Tier, Waiver, gate_of
from qualify.outcome import Outcome, worst
from qualify.report import Planned, case_outcomes
from qualify.room import RoomFacts


def decide(
    *,
    policy: Policy,
    gates: Gates,
    question: Question,
    index: Index,
    records: Mapping[str, bytes],
    waivers: Iterable[Waiver],
    today: datetime.date,
    denials: Iterable[Denial] = (),
) -> Verdict:
    """The verdict; `records` maps the name of each record's file to its bytes."""
    court = _Court(policy, gates, question, tuple(waivers), today)
    court.check_index(index, records)
    denied = tuple(denials)
    for denial in denied:
        court.refuse(Layer.PACKAGE, denial.what, denial.mend)
    if question.asked or not denied:
        for asked in sorted(set(question.asked)):
            court.hear(asked, index, records)
        court.check_gates()
        court.check_rooms()
        court.check_obligations()
    return court.verdict(index)


class _Court:
    """Gathers reasons and rows while the rules are gone through, once."""

    def __init__(
        self,
        policy: Policy,
        gates: Gates,
        question: Question,
        waivers: tuple[Waiver, ...],
        today: datetime.date,
    ) -> None:
        self.policy = policy
        self.gates = gates
        self.question = question
        self.tier: Tier = gates.tier(question.tier)
        self.waivers = waivers
        self.today = today
        self.reasons: list[Reason] = []
        self.rows: list[Row] = []
        self.rooms: dict[str, RoomFacts] = {}
        self.shown: dict[str, set[str]] = {}  # room to obligations
        self.heard: set[tuple[str, int]] = set()

    def refuse(
        self,
        layer: Layer,
        what: str,
        mend: str,
        *,
        gate: int | None = None,
        check: str = "",
        room: str = "",
    ) -> None:
        self.reasons.append(
            Reason(
                layer=layer,
                owner=self.gates.owners[layer],
                what=what,
                mend=mend,
                gate=gate,
                check=check,
                room=room,
            )
        )

    def check_index(self, index: Index, records: Mapping[str, bytes]) -> None:
        """Rules 1 and 2."""
        for problem in index.problems:
            self.refuse(Layer.EVIDENCE, problem, "restore the evidence, or start it anew")
        if index.pending:
            self.refuse(
                Layer.EVIDENCE,
                f"the head does not count the last {len(index.pending)} of the index's lines: an "
                "append was interrupted, or an older head was put back",
                "run the gates: that finishes the append",
            )
        trusted = self.policy.trusted_keys
        if trusted and index.key_id not in trusted:
            self.refuse(
                Layer.EVIDENCE,
                f"the policy does not trust the index's key: {index.key_id or 'none'}",
                "sign with a trusted key, or name this one in matrix/policy.toml",
            )
        for entry in index.entries:
            where = f"record {entry.record[:12]} of gate {entry.gate} in room {entry.room}"
            data = records.get(entry.record)
            if data is None or evidence.digest(data) != entry.record:
                self.refuse(
                    Layer.EVIDENCE,
                    f"{where} "
                    + ("is not there" if data is None else "was changed after it was written"),
                    "restore the record, or start the evidence anew",
                    gate=entry.gate,
                    room=entry.room,
                )

    def hear(self, asked: Asked, index: Index, records: Mapping[str, bytes]) -> None:
        """Rules 3 to 9, for one gate in one room."""
        gate = self.gates.gates[asked.gate]
        entries = [
            entry
            for entry in index.entries
            if (entry.cell, entry.room, entry.gate, entry.key)
            == (self.question.cell.id, asked.room, asked.gate, asked.key)
        ]
        found = [
            (entry, record)
            for entry in entries
            if (record := self._admit(entry, records)) is not None
        ]
        if any(record.predicate.ended for _, record in found):
            found = [
                (entry, record)
                for entry, record in found
                if record.predicate.ended or record.predicate.blames
            ]
        else:
            found = found[-1:]
        if not found:
            if not entries and not index.problems:  # else that is a reason already
                self.refuse(
                    Layer.EVIDENCE,
                    f"there is no record of gate {gate.number} about these inputs",
                    "run the gate",
                    gate=gate.number,
                    room=asked.room,
                )
            return
        self.heard.add((asked.room, asked.gate))
        for _, record in found:
            self._judge(gate, record, asked.room)
            self._agree(gate, record, asked.room)
        self._count(gate, found, asked.room)

    def _admit(self, entry: Entry, records: Mapping[str, bytes]) -> Record | None:
        """Rules 4 and 5: the record of an entry, if it is what the index says it is."""
        data = records.get(entry.record)
        if data is None or evidence.digest(data) != entry.record:
            return None  # check_index has refused
        try:
            record = evidence.decode(data, f"record {entry.record[:12]}")
        except EvidenceError as error:
            self.refuse(
                Layer.EVIDENCE,
                str(error),
                "run the gate again",
                gate=entry.gate,
                room=entry.room,
            )
            return None
        predicate = record.predicate
        for what, expected, got in (
            ("the wheels", self.question.wheels, record.wheels),
            ("the cell", self.question.cell.without_images, predicate.cell.without_images),
            ("the device", self.question.cell.device, predicate.device),
            ("the evidence", self.question.cell.evidence.value, predicate.evidence.value),
            ("the gate", entry.gate, predicate.gate),
            ("the room", entry.room, predicate.room.name),
            ("the inputs", entry.key, predicate.key),
        ):
            if expected != got:
                self.refuse(
                    Layer.EVIDENCE,
                    f"record {entry.record[:12]} is about something else: {what}: "
                    f"expected {expected}, got {got}",
                    "run the gate on what is to be claimed",
                    gate=entry.gate,
                    room=entry.room,
                )
                return None
        return record

    def _judge(self, gate: Gate, record: Record, room: str) -> None:
        """Rules 6 to 8."""
        predicate = record.predicate
        for fault in predicate.faults:
            self.refuse(
                fault.layer, fault.what, "see the record's processes", gate=gate.number, room=room
            )
        if predicate.faults and not predicate.attempts:
            return  # the fault says it all; that nothing was planned, or ran, is its echo
        if not predicate.ended and not predicate.faults:
            status = "none" if predicate.end is None else predicate.end
            self.refuse(
                Layer.PIPELINE,
                f"the gate did not reach its end: pytest's status is {status}",
                "see the record's processes for how it ended",
                gate=gate.number,
                room=room,
            )
        if problem := predicate.contradiction:
            self.refuse(
                Layer.PIPELINE,
                problem,
                "see the record's processes for how it ended",
                gate=gate.number,
                room=room,
            )
        if not predicate.planned:
            self.refuse(
                Layer.PIPELINE,
                "the gate planned no checks",
                "see what pytest collected, in the record's processes",
                gate=gate.number,
                room=room,
            )
        whole = gate.number in self.tier.gates
        planned = {check.id: check for check in predicate.planned}
        required = {*gate.required, *self.tier.checks} if whole else set(self.tier.checks)
        for id in sorted(required):
            if gate_of(id) == gate.number and id not in planned:
                self.refuse(
                    self.gates.layer(id),
                    "a required check was not planned",
                    "restore the check, or take it out of matrix/gates.toml",
                    gate=gate.number,
                    check=id,
                    room=room,
                )
        for check in predicate.planned:
            if whole or check.id in self.tier.checks:
                self._judge_check(check, record, room)

    def _agree(self, gate: Gate, record: Record, room: str) -> None:
        """Rule 9. A check that has a reason of its own may have said nothing for it."""
        here = record.predicate.room
        if (before := self.rooms.setdefault(room, here)) != here:
            self.refuse(
                Layer.EVIDENCE,
                f"the gate ran in another room: {_difference(before, here)}",
                "run all gates in the same room",
                gate=gate.number,
                room=room,
            )
        blamed = {reason.check for reason in self.reasons if reason.room == room}
        for found in agreement.of_checks(self.question.cell, self.gates.cell_facts, record):
            if found.check not in blamed:
                self._disagree(found, gate=gate.number, room=room)

    def _disagree(self, found: Disagreement, *, gate: int | None = None, room: str = "") -> None:
        self.refuse(
            found.layer,
            f"the cell is not what ran: {found.field}: expected {found.expected}, got {found.got}",
            "run the gates on what the cell says, or claim the cell that ran",
            gate=gate,
            check=found.check,
            room=room,
        )

    def _judge_check(self, check: Planned, record: Record, room: str) -> None:
        """Rule 8, and what the check shows for rule 10."""
        outcomes = case_outcomes(check, record.predicate.attempts)
        if worst(outcomes) is Outcome.PASSED:
            if check.kind in self.policy.claim_kinds:
                self.shown.setdefault(room, set()).update(check.obligations)
            return
        for outcome in sorted(set(outcomes) - {Outcome.PASSED}, key=lambda o: o.value):
            waiver = self._waiver(check.id, outcome)
            if waiver is not None and self.today <= waiver.review:
                continue
            what = f"{outcome.value}{_why(check, outcome, record)}"
            if waiver is not None:
                what += f" (its waiver, {waiver.issue}, ran out on {waiver.review})"
            self.refuse(
                self.gates.layer(check.id),
                what,
                f"to see it again: qualify shell --python {record.predicate.cell.python} --room "
                f"{record.predicate.room.kind.value} --in {room} -- {check.command}",
                gate=record.predicate.gate,
                check=check.id,
                room=room,
            )

    def _waiver(self, check: str, outcome: Outcome) -> Waiver | None:
        """The waiver of exactly this outcome; the one that lives longest."""
        matching = [w for w in self.waivers if (w.check, w.outcome) == (check, outcome.value)]
        return max(matching, key=lambda waiver: waiver.review, default=None)

    def _count(self, gate: Gate, found: list[tuple[Entry, Record]], room: str) -> None:
        """The row of a gate in a room: over all its records, the worst of each check."""
        by_check: dict[str, list[Outcome]] = {}
        for _, record in found:
            for result in record.predicate.results:
                by_check.setdefault(result.id, []).append(result.outcome)
        outcomes = {id: worst(several) for id, several in by_check.items()}
        waivers = {id: self._waiver(id, outcome) for id, outcome in outcomes.items()}
        facts = found[-1][1].predicate.room
        # The fields of a row are the outcomes' names.
        counts = {o.name.lower(): list(outcomes.values()).count(o) for o in Outcome}
        self.rows.append(
            Row(
                gate=gate.number,
                name=gate.name,
                room=room,
                kind=facts.kind,
                os=f"{facts.os_id} {facts.os_version}",
                asked_for=self._asks_for(gate),
                built=gate.built,
                planned=len(outcomes),
                **counts,
                waived=sum(w is not None and self.today <= w.review for w in waivers.values()),
                records=tuple(entry.record for entry, _ in found),
            )
        )

    def _asks_for(self, gate: Gate) -> bool:
        return gate.number in self.tier.gates or any(
            gate_of(check) == gate.number for check in self.tier.checks
        )

    def check_gates(self) -> None:
        """Rule 12, and that no room left out a gate."""
        for gate in self.gates.gates:
            rooms = {room for room, number in self.heard if number == gate.number}
            if not rooms:
                self.rows.append(
                    Row(
                        gate=gate.number,
                        name=gate.name,
                        asked_for=self._asks_for(gate),
                        built=gate.built,
                    )
                )
            if not gate.built and gate.number in self.tier.gates:
                self.refuse(
                    gate.layer,
                    f"gate {gate.number} {gate.name}: not run, since it is not built yet",
                    "build the gate, or ask for a tier without it",
                    gate=gate.number,
                )
            elif self._asks_for(gate):
                asked = {a.room for a in self.question.asked if a.gate == gate.number}
                everywhere = {a.room for a in self.question.asked}
                for room in sorted(everywhere - asked) or ([] if asked else [""]):
                    self.refuse(
                        Layer.EVIDENCE,
                        f"gate {gate.number} {gate.name}: not run",
                        "run the gate",
                        gate=gate.number,
                        room=room,
                    )

    def check_rooms(self) -> None:
        """Rules 9 and 11, unless a room is missing for a reason that was given already."""
        asked = {asked.room for asked in self.question.asked}
        if asked - set(self.rooms) or (not asked and self.reasons):
            return
        short = _rooms_short(self.tier, self.rooms)
        for what, expected, got in short:
            self.refuse(Layer.PIPELINE, f"{what}: expected {expected}, got {got}", _ROOM_MEND)
        if not short:
            for found in agreement.of_rooms(self.question.cell, self.rooms.values()):
                self._disagree(found)

    def check_obligations(self) -> None:
        """Rule 10, unless a room has a reason of its own, of which this would be the echo."""
        blamed = {reason.room for reason in self.reasons}
        for room in sorted(set(self.rooms) - blamed):
            missing = set(self.tier.obligations) - self.shown.get(room, set())
            if missing:
                kinds = " or ".join(kind.value for kind in self.policy.claim_kinds)
                self.refuse(
                    Layer.EVIDENCE,
                    f"obligations not shown by a passed {kinds}: {', '.join(sorted(missing))}",
                    "mend the checks that carry them",
                    room=room,
                )

    def verdict(self, index: Index) -> Verdict:
        able = [tier.name for tier in self.gates.tiers if not _rooms_short(tier, self.rooms)]
        return Verdict(
            claim=not self.reasons
            and self.heard == {(a.room, a.gate) for a in self.question.asked},
            tier=self.tier.name,
            cell=agreement.as_ran(self.question.cell, self.rooms.values()),
            wheels=self.question.wheels,
            ceiling=able[-1] if able else "none",
            rooms=tuple(sorted(self.rooms)),
            rows=tuple(sorted(self.rows, key=lambda row: (row.gate, row.room))),
            reasons=tuple(self.reasons),
            today=self.today,
            index_head=index.head,
            key_id=index.key_id,
        )


_ROOM_MEND = "run with a container engine: docker or podman gives rooms of two operating systems"


def _rooms_short(tier: Tier, rooms: Mapping[str, RoomFacts]) -> list[tuple[str, object, object]]:
    """What `rooms` lack for `tier`: (what, expected, got)."""
    able = [facts for facts in rooms.values() if facts.kind in tier.room_kinds]
    systems = {(facts.os_id, facts.os_version) for facts in able}
    kinds = "/".join(kind.value for kind in tier.room_kinds)
    short: list[tuple[str, object, object]] = []
    if len(able) < tier.rooms:
        got = ", ".join(sorted({facts.kind.value for facts in rooms.values()})) or "none"
        short.append((f"clean rooms ({kinds})", tier.rooms, f"{len(able)} (rooms: {got})"))
    if len(systems) < tier.distinct_os:
        short.append(("distinct operating systems", tier.distinct_os, len(systems)))
    return short


def _difference(before: RoomFacts, here: RoomFacts) -> str:
    """The fields in which two rooms differ."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(here)
    return "; ".join(f"{k}: expected {old[k]}, got {new[k]}" for k in old if old[k] != new[k])


def _why(check: Planned, outcome: Outcome, record: Record) -> str:
    """What the first attempt with this outcome said, in one line, and its case.

    Pytest marks the lines of an error with `E`; the first of them names it.
    """
    for attempt in record.predicate.attempts:
        if attempt.id == check.id and attempt.outcome is outcome:
            lines = attempt.message.strip().splitlines()
            said = [line[1:].strip() for line in lines if line.startswith("E  ")] or lines[-1:]
            case = f" [{attempt.case}]" if attempt.case else ""
            return f"{case}: {said[0]}" if said else case
    return ""
