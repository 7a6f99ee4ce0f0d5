"""Small real evidence: reports as a gate writes them, records and an index made from them."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from qualify import evidence, index, report
from qualify.claim import Asked, Question, Verdict
from qualify.engine import Engine, RoomKind
from qualify.evidence import Host, Predicate, Record
from qualify.matrix import (
    Cell,
    CellFact,
    EvidenceKind,
    Gate,
    Gates,
    Layer,
    Policy,
    Route,
    Tier,
    Waiver,
)
from qualify.outcome import Outcome, StatementKind
from qualify.process import Completed
from qualify.room import RoomFacts, RoomSpec
from qualify.verdict import decide

NOW = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.timezone.utc)
TODAY = NOW.date()
WHEELS = {"emu_runtime-0.1.0-py3-none-linux_x86_64.whl": "1" * 64, "torch_emu-0.1.0.whl": "2" * 64}
CELL = Cell(
    id="emu-a0-py3.11",
    evidence=EvidenceKind.EMULATED,
    device="emu",
    stepping="A0",
    firmware="1.0.0",
    driver="0.1.0",
    runtime="0.1.0",
    plugin="0.1.0",
    torch="2.13.0",
    python="3.11",
    images=("debian12", "debian13"),
    architecture="x86_64",
    configurations=("A0/1.0.0/nominal",),
)
NAMES = [
    "health",
    "tensors",
    "eager",
    "compiled",
    "domain",
    "distributed",
    "performance",
    "release",
]
REQUIRED = {
    0: ("gate0.a.one",),
    1: ("gate1.a.one",),
    7: ("gate7.a.one", "gate7.install.offline"),
}
GATES = Gates(
    gates=tuple(
        Gate(
            number=number,
            name=name,
            question="?",
            folder=f"gate{number}_{name}",
            built=number in (0, 1),
            layer=Layer.PLUGIN if number else Layer.DRIVER,
            required=REQUIRED.get(number, ()),
        )
        for number, name in enumerate(NAMES)
    ),
    owners={layer: f"{layer.value} team" for layer in Layer},
    routes=(Route(prefix="gate0.firmware.", layer=Layer.FIRMWARE),),
    tiers=(
        Tier(
            name="experimental",
            gates=(0, 1),
            checks=("gate7.install.offline",),
            obligations=("B0", "B1"),
            rooms=2,
            distinct_os=1,
            room_kinds=tuple(RoomKind),
        ),
        Tier(
            name="release",
            gates=tuple(range(8)),
            obligations=("B0", "B1"),
            rooms=2,
            distinct_os=2,
            room_kinds=(RoomKind.DOCKER, RoomKind.PODMAN),
        ),
    ),
    cell_facts=tuple(
        CellFact(field=field, check="gate0.a.one", detail=detail, layer=layer)
        for field, detail, layer in (
            ("stepping", "stepping", Layer.HARDWARE),
            ("firmware", "firmware", Layer.FIRMWARE),
            ("configurations", "configuration", Layer.PIPELINE),
            ("driver", "driver", Layer.DRIVER),
            ("architecture", "machine", Layer.PIPELINE),
        )
    ),
)
POLICY = Policy(claim_kinds=(StatementKind.FOCUSED_TEST, StatementKind.WORKLOAD_RESULT))


OURS = f"{Path(evidence.__file__).parent}/"

Events = list[dict[str, Any]]
DETAIL = {
    "path": "native",
    "stepping": CELL.stepping,
    "firmware": CELL.firmware,
    "configuration": CELL.configurations[0],
    "driver": CELL.driver,
    "machine": CELL.architecture,
}


def check(
    id: str,
    *outcomes: str,
    cases: Sequence[str] = ("",),
    detail: dict[str, Any] = DETAIL,
    **more: Any,
) -> dict[str, Any]:
    """A check and what became of its cases: one outcome, or one for each case; "" for not run."""
    planned = {
        "id": id,
        "obligations": [f"B{id[4]}"],
        "kind": "focused test",
        "cases": list(cases),
        "command": f"python -m pytest {id}",
        **more,
    }
    given = outcomes or ("passed",)
    return {
        "plan": planned,
        "outcomes": list(given) * (len(cases) if len(given) == 1 else 1),
        "detail": detail,
    }


def events(*checks: dict[str, Any], gate: int = 0, end: int | None = 0) -> Events:
    """The events that a gate writes when its checks go like this; no `end` for a crash."""
    lines: Events = [
        {
            "event": "plan",
            "protocol": 1,
            "gate": gate,
            "device": "emu",
            "faults": [],
            "checks": [made["plan"] for made in checks],
        }
    ]
    for made in checks:
        for case, outcome in zip(made["plan"]["cases"], made["outcomes"], strict=True):
            if not outcome:
                continue
            run = {"id": made["plan"]["id"], "case": case, "attempt": 1}
            lines.append({"event": "start", **run})
            lines.append(
                {
                    "event": "check",
                    **run,
                    "outcome": outcome,
                    "seconds": 0.5,
                    "message": "" if outcome == "passed" else "why",
                    "detail": made["detail"],
                    "command": made["plan"]["command"],
                }
            )
    if end is not None:
        lines.append({"event": "end", "status": end})
    return lines


def jsonl(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def room(name: str = "debian12", kind: RoomKind = RoomKind.DOCKER, os: str = "") -> RoomFacts:
    return RoomFacts(
        name=name,
        kind=kind,
        os_id="debian",
        os_version=os or name.removeprefix("debian"),
        glibc="2.36",
        image="sha256:" + "3" * 64,
        python="3.11.2",
        torch="2.13.0+cpu",
        kernel="6.1",
        isolation=("no network",),
    )


def spec(facts: RoomFacts) -> RoomSpec:
    return RoomSpec(engine=Engine(kind=facts.kind), facts=facts, digest="6" * 64, hidden=())


def make_record(
    lines: bytes,
    *,
    gate: int = 0,
    where: RoomFacts | None = None,
    key: str = "",
    wheels: dict[str, str] | None = None,
    **changes: Any,
) -> Record:
    facts = report.parse(lines)
    predicate = Predicate(
        schema=1,
        key=key or f"{gate}" * 64,
        cell=CELL,
        evidence=EvidenceKind.EMULATED,
        gate=gate,
        device="emu",
        room=where or room(),
        host=Host(
            system="Linux", kernel="6.1", architecture="x86_64", cpu="?", cpus=2, memory_bytes=1
        ),
        torch="2.13.0+cpu",
        closure="4" * 64,
        suite="5" * 64,
        planned=facts.planned,
        attempts=facts.attempts,
        results=evidence.results(facts.planned, facts.attempts),
        end=facts.end,
        faults=(),
        processes=(
            Completed(argv=("pytest",), status=facts.end or 0, stdout="", stderr="", seconds=1.0),
        ),
        started=NOW,
        finished=NOW,
        tool="0.1.0",
    )
    return evidence.record(wheels or WHEELS, msgspec.structs.replace(predicate, **changes))


class World:
    """An evidence folder, and the question that is asked of it."""

    def __init__(self, folder: Path, **question: Any) -> None:
        self.folder = folder
        self.asked: list[Asked] = []
        self.waivers: list[Waiver] = []
        self.question = question

    def add(self, lines: bytes, gate: int = 0, where: RoomFacts | None = None, **more: Any) -> str:
        made = make_record(lines, gate=gate, where=where, **more)
        name = evidence.write(self.folder, made)
        place, key = made.predicate.room.name, made.predicate.key
        cell = made.predicate.cell.id
        index.append(self.folder, record=name, key=key, cell=cell, room=place, gate=gate, now=NOW)
        self.asked.append(Asked(place, gate, key))
        return name

    def fill(
        self, *, kind: RoomKind = RoomKind.DOCKER, cell: Cell = CELL, **reports: Events
    ) -> World:
        """Two rooms with gates 0, 1 and 7 passed, but for the gates named (gate0=...)."""
        assert set(reports) <= {"gate0", "gate1", "gate7"}
        for name, os in (("debian12", "12"), ("debian13", "13")):
            for gate in (0, 1, 7):
                usual = [check(f"gate{gate}.a.one")]
                if gate == 7:
                    usual.append(check("gate7.install.offline"))
                lines = reports.get(f"gate{gate}") or events(*usual, gate=gate)
                self.add(jsonl(lines), gate, room(name, kind, os), cell=cell)
        return self

    def decide(self, tier: str = "experimental", **changes: Any) -> Verdict:
        given: dict[str, Any] = {
            "policy": POLICY,
            "gates": GATES,
            "question": Question(
                tier=tier,
                **{"cell": CELL, "wheels": WHEELS, "asked": tuple(self.asked), **self.question},
            ),
            "index": index.read(self.folder),
            "records": evidence.read_all(self.folder),
            "waivers": self.waivers,
            "today": TODAY,
        }
        return decide(**{**given, **changes})


def waiver(id: str, outcome: Any = "skipped", days: int = 0) -> Waiver:
    """A waiver whose review date is `days` from today."""
    return Waiver(
        check=id,
        outcome=outcome,
        owner="someone",
        reason="a reason",
        issue="#1",
        review=TODAY + datetime.timedelta(days=days),
    )


@contextlib.contextmanager
def interrupted_at(number: int) -> Iterator[None]:
    """Ctrl-C at the `number`-th call that our own code makes; nothing where there are fewer."""
    calls = itertools.count(1)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back if event == "call" else frame if event == "c_call" else None
        ours = caller is not None and caller.f_code.co_filename.startswith(OURS)
        if ours and next(calls) == number:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


OUTCOMES = [outcome.value for outcome in Outcome if outcome is not Outcome.NOT_RUN] + [""]
