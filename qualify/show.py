"""Evidence in words: a verdict, a record or an index as tables for a person."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qualify import evidence, index, installs
from qualify.claim import Reason, Row, Verdict
from qualify.errors import EvidenceError, InputError
from qualify.evidence import Record
from qualify.index import Index
from qualify.outcome import Outcome
from qualify.rebuild import Report
from qualify.stage import Output

LARGEST_BYTES = 256 * 10**6
"""Of a file to show; a record with every message of its checks has a hundredth of it."""

Shown = Verdict | Record | Index


def read(path: Path) -> Shown:
    """What `path` holds: a verdict, a record, or the index (its file or its folder)."""
    if path.is_dir():
        return index.read(path)
    if path.name == index.LINES:
        return index.read(path.parent)
    data = _read(path)
    if _is_named(path) and (got := evidence.digest(data)) != path.stem:
        raise InputError(
            f"{path} was changed after it was written",
            expected="bytes with the digest that is its name",
            got=got,
            mend="Restore it, or run the gate again",
        )
    try:
        return msgspec.json.decode(data, type=Verdict)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return evidence.decode(data, str(path))
    except EvidenceError as error:
        raise InputError(
            f"cannot show {path}", expected="a verdict, a record or an index", got=str(error)
        ) from error


def doubt(path: Path, shown: Shown) -> str:
    """Why what is shown may be anybody's word: a file proves only what is in its name."""
    if isinstance(shown, Index) or _is_named(path):
        return ""
    return (
        f"unverified: the name of {path.name} is not the digest of its bytes, so it may have been "
        "changed. `qualify decide` answers from records and index"
    )


def _is_named(path: Path) -> bool:
    return re.fullmatch("[0-9a-f]{64}", path.stem) is not None


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InputError(
                f"cannot read {path}",
                expected="a file",
                got="something else" if path.exists() else "nothing there",
            )
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if len(data) > LARGEST_BYTES:
        raise InputError(
            f"{path} is too large", expected=f"at most {LARGEST_BYTES} bytes", got="more"
        )
    return data


def render(shown: Shown, records: Path | None = None) -> RenderableType:
    """`shown` for a terminal. `records` is the folder that record paths are printed under."""
    match shown:
        case Verdict():
            return _verdict(shown, records)
        case Record():
            return _record(shown)
        case Index():
            return _index(shown)


# Outcomes that are rare enough to get a column only where one of them was seen.
_RARE: dict[str, Callable[[Row], int]] = {
    "error": lambda row: row.error,
    "skipped": lambda row: row.skipped,
    "xfail": lambda row: row.expected_failure,
    "xpass": lambda row: row.unexpected_pass,
}
_RECORD_DIGITS = 12


def _verdict(verdict: Verdict, records: Path | None) -> RenderableType:
    rare = [name for name, count in _RARE.items() if any(count(row) for row in verdict.rows)]
    table = Table(box=None, pad_edge=False)
    table.add_column("gate", no_wrap=True)
    table.add_column("room", no_wrap=True)
    for heading in ("planned", "passed", "failed", *rare, "not run", "waived"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("record", no_wrap=True)
    for row in verdict.rows:
        table.add_row(*_cells(row, rare), style=None if row.asked_for else "dim")
    parts: list[RenderableType] = [table]
    if any(row.records and not row.built for row in verdict.rows):
        parts.append(
            Text("* single checks that the tier names; the rest is not built", style="dim")
        )
    blamed = {(reason.gate, reason.room) for reason in verdict.reasons}
    if any(row.failed and (row.gate, row.room) not in blamed for row in verdict.rows):
        said = "a failed check that the tier does not ask for refuses nothing: qualify show"
        parts.append(Text(f"{said} RECORD names it", style="dim"))
    if records is not None:
        parts.append(Text(f"records: {records}/<record>*.json", style="dim"))
    parts.append(Text())
    for first, rooms in _grouped(verdict.reasons):
        place = first.check or (f"gate {first.gate}" if first.gate is not None else "cell")
        line = Text("refused ", style="red")
        line.append(place, style="bold")
        line.append(f" [{first.layer.value}, {first.owner}]")
        line.append(f" in {', '.join(rooms)}" if rooms else "")
        parts += [line, Text(f"    {first.what}"), Text(f"    mend: {first.mend}")]
    word, style = ("CLAIM", "bold green") if verdict.claim else ("REFUSED", "bold red")
    kinds = sorted({row.kind.value for row in verdict.rows if row.kind is not None})
    end = Text(f"{word} ", style=style)
    end.append(
        f"{verdict.tier} for {verdict.cell.id} ({verdict.cell.evidence.value}) "
        f"in {', '.join(verdict.rooms) or 'no room'} ({'/'.join(kinds) or 'none'}); "
        f"its rooms allow: {verdict.ceiling}",
        style="default",
    )
    return Group(*parts, end)


def _cells(row: Row, rare: list[str]) -> list[str]:
    name = f"{row.gate} {row.name}"
    if not row.records:
        why = "not run" if row.built else "not built"
        return [name, row.room, *["-"] * (5 + len(rare)), why]
    if not row.built:
        name += "*"
    counts = [row.planned, row.passed, row.failed, *(_RARE[name](row) for name in rare)]
    counts += [row.not_run, row.waived]
    where = "\n".join(record[:_RECORD_DIGITS] for record in row.records)
    return [name, row.room, *map(str, counts), where]


def _grouped(reasons: tuple[Reason, ...]) -> list[tuple[Reason, list[str]]]:
    """The same reason in several rooms is said once, with the mend of the first."""
    found: dict[tuple[object, ...], tuple[Reason, list[str]]] = {}
    for r in reasons:
        _, rooms = found.setdefault((r.gate, r.check, r.layer, r.owner, r.what), (r, []))
        if r.room and r.room not in rooms:
            rooms.append(r.room)
    return list(found.values())


def _record(record: Record) -> RenderableType:
    predicate, room = record.predicate, record.predicate.room
    facts = Table.grid(padding=(0, 2))
    end = "not reached" if predicate.end is None else f"pytest's status {predicate.end}"
    for name, value in (
        ("gate", f"{predicate.gate} on {predicate.device} ({predicate.evidence.value})"),
        ("cell", predicate.cell.id),
        ("room", f"{room.name}: {room.kind.value}, {room.os_id} {room.os_version}"),
        ("python, torch", f"{room.python}, {predicate.torch}"),
        ("isolation", "; ".join(room.isolation)),
        ("host", f"{predicate.host.system} {predicate.host.kernel}, {predicate.host.cpu}"),
        ("time", f"{predicate.started:%Y-%m-%d %H:%M:%S} to {predicate.finished:%H:%M:%S} UTC"),
        ("end", end),
        *(("fault", f"{fault.what} [{fault.layer.value}]") for fault in predicate.faults),
        *(("wheel", f"{name} sha256:{sha256}") for name, sha256 in record.wheels.items()),
    ):
        facts.add_row(name, Text(value))
    table = Table("check", "outcome", "attempts", "seconds", "kind", "obligations", box=None)
    kept = []
    for check, result in zip(predicate.planned, predicate.results, strict=True):
        attempts = [attempt for attempt in predicate.attempts if attempt.id == check.id]
        seconds = sum(attempt.seconds for attempt in attempts)
        shows = ", ".join(check.obligations)
        good = result.outcome is Outcome.PASSED
        table.add_row(
            check.id,
            Text(result.outcome.value, style="green" if good else "red"),
            str(len(attempts)),
            f"{seconds:.2f}",
            check.kind.value,
            shows,
        )
        kept += [a for a in attempts if a.outcome is not Outcome.PASSED]
    parts: list[RenderableType] = [facts, Text(), table]
    for attempt in kept:
        case = f" [{attempt.case}]" if attempt.case else ""
        parts += [Text(f"\n{attempt.id}{case}: {attempt.outcome.value}", style="bold red")]
        parts += [Text(attempt.message), Text(f"detail: {attempt.detail}")]
        parts += [Text(f"again:  {attempt.command}")]
    return Group(*parts)


def _index(shown: Index) -> RenderableType:
    table = Table("line", "time", "cell", "room", "gate", "record", "inputs", box=None)
    for entry in shown.entries:
        table.add_row(
            str(entry.sequence),
            f"{entry.time:%Y-%m-%d %H:%M:%S}",
            entry.cell,
            entry.room,
            str(entry.gate),
            entry.record[:16],
            entry.key[:16],
        )
    problems = [Text(problem, style="bold red") for problem in shown.problems]
    signed = Text(f"head {shown.head or 'none'}\nsigned by {shown.key_id or 'nobody'}")
    return Group(table, *problems, signed)


def timings(outputs: list[Output]) -> RenderableType:
    """How long each stage took in this run, and which ones did not have to run."""
    table = Table("stage", "seconds", "", box=None, pad_edge=False)
    for output in outputs:
        note = "unchanged" if output.reused else ""
        table.add_row(output.name, f"{output.seconds:.1f}", note)
    return table


def installed(report: installs.Report) -> RenderableType:
    """A row a Python and room, then the reasons of what was refused."""
    table = Table(box=None, pad_edge=False)
    for heading in ("Python", "room"):
        table.add_column(heading, no_wrap=True)
    for heading in ("planned", "passed", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("record", no_wrap=True)
    reasons: list[RenderableType] = []
    for each in report.installed:
        rows = each.verdict.rows if each.verdict else ()
        row = next((row for row in rows if row.room == each.room), None)
        counts = [str(row.planned), str(row.passed)] if row else ["-", "-"]
        seconds = f"{each.seconds:.1f}" + (" reused" if each.reused else "")
        records = " ".join(record[:_RECORD_DIGITS] for record in row.records) if row else "-"
        cells = [each.python, each.room or "none", *counts, seconds, records]
        table.add_row(*(Text(cell) for cell in cells), style=None if each.claim else "red")
        where = f"Python {each.python}" + (f" in {each.room}" if each.room else "")
        if each.trouble:
            reasons.append(Text(f"{where}: could not be found out: {each.trouble}"))
        for reason in each.verdict.reasons if each.verdict else ():
            what = f"{reason.check}: {reason.what}" if reason.check else reason.what
            reasons.append(Text(f"{where}: {what}"))
    passed = sum(each.claim for each in report.installed)
    last = f"{passed} of {len(report.installed)} rooms, in {report.seconds:.0f} s"
    return Group(table, Text(), *reasons, Text(last))


def rebuilt(report: Report) -> RenderableType:
    """Two builds of each wheel: what was varied, and what came out."""
    table = Table("wheel", "first build", "second build", "", box=None, pad_edge=False)
    details = Table("wheel", "where", "what", "first", "second", box=None, pad_edge=False)
    for wheel in report.wheels:
        count = len(wheel.differences)
        word = f"{count} differences" if count else "same"
        table.add_row(wheel.name, wheel.sha256[:12], wheel.again[:12], word)
        for each in wheel.differences:
            row = (wheel.name, each.member or "the archive", each.what, each.first, each.second)
            details.add_row(*(Text(cell) for cell in row))
    parts: list[RenderableType] = [
        Text("varied: " + "; ".join(report.varied)),
        Text("kept:   " + "; ".join(report.kept)),
        Text(""),
        table,
    ]
    if details.row_count:
        parts += [Text(""), details]
    return Group(*parts)
