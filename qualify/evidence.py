"""A record: the evidence of one gate on one cell in one room, as an in-toto statement.

The subjects are the wheels, by sha256. The predicate holds what was planned, every
attempt, the outcome of each check, the processes that ran, and everything that shaped the
result: room, host, torch and its closure, the gate suite. A record is one file, named by
the sha256 of its bytes, written whole or not at all, and never changed.

No overall result is stored: a verdict is always decided anew. The outcome of each check is
there for readers and has to follow from the attempts, or the record is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from google.protobuf import json_format
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementProto

from qualify.errors import EvidenceError
from qualify.matrix import Cell, EvidenceKind, GateNumber, Layer, whole
from qualify.outcome import Outcome, worst
from qualify.process import Completed
from qualify.report import Attempt, Planned, case_outcomes
from qualify.room import RoomFacts

SCHEMA_VERSION = 1
OUTPUT_LIMIT = 20_000  # characters of each stream of a process that a record keeps

Sha256 = Annotated[str, whole("[0-9a-f]{64}")]


DISK_FULL = "No space left on device"
"""What the C library says of it: in a room of which the disk was full, a message with this
blames the room and not the check."""
FULL = "the disk of the room is full"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Digest(_Strict, frozen=True, kw_only=True):
    sha256: Sha256


class Subject(_Strict, frozen=True, kw_only=True):
    """One wheel: its file name and digest."""

    name: str
    digest: Digest


class Neighbour(_Strict, frozen=True, kw_only=True):
    """A wheel of another release that the gate installed too, and how it was made: `moved` from the
    source of the release under test, with its version and interface numbers moved."""

    release: Literal["before", "after"]
    name: str
    digest: Digest
    made: Literal["moved"]


class Host(_Strict, frozen=True, kw_only=True):
    """The machine that the room was on."""

    system: str
    kernel: str
    architecture: str
    cpu: str
    cpus: int
    memory_bytes: int


class Fault(_Strict, frozen=True, kw_only=True):
    """What kept a gate from running to its end, and where that can be changed."""

    layer: Layer
    what: str


class CheckResult(_Strict, frozen=True, kw_only=True):
    """The worst of all cases and attempts of one planned check."""

    id: str
    outcome: Outcome


class Predicate(_Strict, frozen=True, kw_only=True):
    """All that one gate on one cell in one room has shown.

    `key` is the digest of the gate's inputs. `end` is pytest's status, null where the gate
    did not reach its end. `evidence` says what the device was, and has no default.
    """

    schema: Literal[1]
    key: Sha256
    cell: Cell
    evidence: EvidenceKind
    gate: GateNumber
    device: str
    room: RoomFacts
    host: Host
    torch: str
    closure: str
    suite: Sha256
    planned: tuple[Planned, ...]
    attempts: tuple[Attempt, ...]
    results: tuple[CheckResult, ...]
    end: int | None
    faults: tuple[Fault, ...]
    processes: tuple[Completed, ...]
    started: datetime.datetime
    finished: datetime.datetime
    tool: str
    neighbours: tuple[Neighbour, ...] = ()
    companions: dict[str, Sha256] = {}
    """Wheels of others that were installed beside: file name to sha256."""

    @property
    def ended(self) -> bool:
        """Whether the gate ran to its end. Pytest ends with 0 or 1 after it ran what it planned."""
        return self.end in (0, 1) and not self.faults

    @property
    def contradiction(self) -> str:
        """What contradicts the end that the gate wrote down: its process, its outcomes, or ""."""
        if not self.ended:
            return ""  # a fault of its own
        status = self.processes[-1].status if self.processes else None
        if status != self.end:
            return f"the gate wrote that it ends with {self.end}, and its process did with {status}"
        if self.end == 1 and all(r.outcome is Outcome.PASSED for r in self.results):
            return "the gate wrote that something failed, and every check passed"
        return ""

    @property
    def blames(self) -> bool:
        """Whether a check went wrong for a reason that is not the room's full disk.

        A killed room brings no report back, so its record has no attempts.
        """
        full = any(fault.what == FULL for fault in self.faults)
        return any(
            attempt.outcome is not Outcome.PASSED and not (full and DISK_FULL in attempt.message)
            for attempt in self.attempts
        )


class Record(_Strict, frozen=True, kw_only=True):
    """The statement around a predicate, with in-toto's own names."""

    type: Literal["https://in-toto.io/Statement/v1"] = msgspec.field(name="_type")
    subject: Annotated[tuple[Subject, ...], msgspec.Meta(min_length=1)]
    predicate_type: Literal["urn:qualify:gate-record:v1"] = msgspec.field(name="predicateType")
    predicate: Predicate

    @property
    def wheels(self) -> dict[str, str]:
        """File name to sha256."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


_decoder = msgspec.json.Decoder(Record)


def results(planned: tuple[Planned, ...], attempts: tuple[Attempt, ...]) -> tuple[CheckResult, ...]:
    """The outcome of each planned check, in the order of the plan."""
    return tuple(
        CheckResult(id=check.id, outcome=worst(case_outcomes(check, attempts))) for check in planned
    )


def record(wheels: dict[str, str], predicate: Predicate) -> Record:
    """A record about `wheels` (file name to sha256), checked by in-toto's own validation."""
    made = Record(
        type="https://in-toto.io/Statement/v1",
        subject=tuple(
            Subject(name=name, digest=Digest(sha256=sha256))
            for name, sha256 in sorted(wheels.items())
        ),
        predicate_type="urn:qualify:gate-record:v1",
        predicate=predicate,
    )
    statement = Statement(
        [
            ResourceDescriptor(name=s.name, digest={"sha256": s.digest.sha256}).pb
            for s in made.subject
        ],
        made.predicate_type,
        msgspec.to_builtins(predicate),
    )
    try:
        statement.validate()
    except ValueError as error:
        raise EvidenceError(f"not a statement that in-toto accepts: {error}") from error
    return made


def encode(record: Record) -> bytes:
    """The bytes of a record's file; equal records have equal bytes."""
    return msgspec.json.encode(record, order="deterministic") + b"\n"


def decode(data: bytes, name: str = "record") -> Record:
    """A record from its bytes: typed, valid for in-toto, and consistent in itself."""
    try:
        made = _decoder.decode(data)
        proto = json_format.Parse(data, StatementProto())
        Statement.copy_from_pb(proto).validate()
    except (msgspec.DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{name}: not a record: {error}") from error
    predicate = made.predicate
    expected = results(predicate.planned, predicate.attempts)
    if predicate.results != expected:
        raise EvidenceError(
            f"{name}: the outcomes do not follow from the attempts",
            expected=repr({r.id: r.outcome.value for r in expected}),
            got=repr({r.id: r.outcome.value for r in predicate.results}),
        )
    planned = {check.id for check in predicate.planned}
    if strangers := {attempt.id for attempt in predicate.attempts} - planned:
        raise EvidenceError(f"{name}: attempts of checks that were not planned: {strangers}")
    return made


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def shorten(done: Completed) -> Completed:
    """`done` with at most OUTPUT_LIMIT characters of each stream: the end says more."""

    def end(text: str) -> str:
        if len(text) <= OUTPUT_LIMIT:
            return text
        return f"[{len(text) - OUTPUT_LIMIT} characters left out]\n" + text[-OUTPUT_LIMIT:]

    return msgspec.structs.replace(done, stdout=end(done.stdout), stderr=end(done.stderr))


def write(folder: Path, record: Record) -> str:
    """Put `record` into `folder`/records; returns its digest. Whole, or not there at all."""
    data = encode(record)
    name = digest(data)
    write_whole(folder / "records" / f"{name}.json", data)
    return name


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that a crash leaves the old one or the new one, on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_all(folder: Path) -> dict[str, bytes]:
    """Every record file of an evidence folder: the digest in its name, and its bytes."""
    files = sorted((folder / "records").glob("*.json"))
    return {
        file.stem: file.read_bytes()
        for file in files
        if re.fullmatch("[0-9a-f]{64}", file.stem) and file.is_file()
    }


def schema() -> dict[str, Any]:
    """The JSON Schema of a record, generated from the types."""
    made = msgspec.json.schema(Record)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
