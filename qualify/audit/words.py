"""Reports in words, as lines for people, and as SARIF 2.1.0 for code hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.text import Text

from qualify import __version__
from qualify.audit.finding import Finding, Level, kinds
from qualify.audit.report import Report
from qualify.errors import InputError

SARIF = "2.1.0"
SHOWN = 5
LEVELS: tuple[Level, ...] = get_args(Level)
STYLES: dict[Level, str] = {"error": "bold red", "warning": "yellow", "note": "cyan"}
SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def explain(id: str) -> str:
    """What a kind of finding means. Raises InputError for an id that is none."""
    kind = kinds().get(id)
    if kind is None:
        raise InputError(
            "--explain", expected="the id of a finding", got=id, mend=f"One of {', '.join(kinds())}"
        )
    rows = (("wrong", kind.wrong), ("seen", kind.seen), ("mend", kind.mend))
    return f"{id} ({kind.level})\n" + "".join(f"  {word:<6} {text}\n" for word, text in rows)


def render(reports: list[Report]) -> RenderableType:
    """The worst first, findings of one kind together, `SHOWN` of them; the rest is in JSON."""
    shown: list[RenderableType] = []
    for report in reports:
        name = visible(Path(report.path).name)
        held = f"{report.members} members, {report.binaries} of them compiled"
        shown.append(Text(f"{name}: {_count(report.findings)} in {held}", style="bold"))
        ids = dict.fromkeys(finding.id for finding in report.findings)
        for id in sorted(ids, key=lambda id: LEVELS.index(kinds()[id].level)):
            shown += _kind(id, [finding for finding in report.findings if finding.id == id])
        reasons = Counter((one.finding.id, one.reason) for one in report.accepted)
        for (id, reason), count in reasons.items():
            shown.append(Text(f"accepted {id}, {count} times: {reason}"))
    if len(reports) > 1:
        found = tuple(finding for report in reports for finding in report.findings)
        shown.append(Text(f"{len(reports)} wheels: {_count(found)}", style="bold"))
    return Group(*shown)


def _kind(id: str, findings: list[Finding]) -> Iterator[Text]:
    kind = kinds()[id]
    yield Text.assemble((kind.level, STYLES[kind.level]), " ", (id, "bold"), f": {kind.wrong}")
    for finding in findings[:SHOWN]:
        yield Text(f"  {visible(finding.where)}: {visible(finding.got)}", overflow="fold")
    if len(findings) > SHOWN:
        yield Text(f"  and {len(findings) - SHOWN} more: --json has all")
    yield Text(f"  seen: {kind.seen}")
    yield Text(f"  mend: {kind.mend}")


def _count(findings: tuple[Finding, ...]) -> str:
    """Such as "2 errors, 1 note"."""
    numbers = Counter(kinds()[finding.id].level for finding in findings)
    words = [f"{n} {level}{'s' * (n > 1)}" for level in LEVELS if (n := numbers[level])]
    return ", ".join(words) or "no findings"


def visible(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sarif(reports: list[Report]) -> dict[str, Any]:
    """One run over all wheels. A result lies in its wheel, which is a file that a code host may
    know; the member, nested in it (SARIF 3.24.3), and the place in that are a related location."""
    found = (f for report in reports for f in (*report.findings, *_excused(report)))
    used = sorted({finding.id for finding in found})
    rules = [
        {
            "id": id,
            "shortDescription": {"text": kinds()[id].wrong},
            "fullDescription": {"text": kinds()[id].seen},
            "help": {"text": kinds()[id].mend},
            "defaultConfiguration": {"level": kinds()[id].level},
        }
        for id in used
    ]
    artifacts = _Artifacts()
    results = [
        _result(artifacts, report, finding, used.index(finding.id))
        for report in reports
        for finding in report.findings
    ]
    for report in reports:
        for excused in report.accepted:
            finding = excused.finding
            result = _result(artifacts, report, finding, used.index(finding.id))
            reason = {"kind": "external", "justification": excused.reason}
            results.append({**result, "suppressions": [reason]})
    driver = {"name": "qualify audit", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "artifacts": artifacts.listed,
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return {"version": SARIF, "$schema": SCHEMA, "runs": [run]}


def _excused(report: Report) -> Iterator[Finding]:
    return (excused.finding for excused in report.accepted)


class _Artifacts:
    """The wheels and members that results lie in: each is listed once, and known by its index."""

    def __init__(self) -> None:
        self.listed: list[dict[str, Any]] = []
        self._index: dict[tuple[str, int | None], int] = {}

    def location(self, uri: str, parent: int | None = None) -> dict[str, Any]:
        key = (uri, parent)
        if key not in self._index:
            self._index[key] = len(self.listed)
            nested = {} if parent is None else {"parentIndex": parent}
            self.listed.append({"location": {"uri": uri}, **nested})
        return {"uri": uri, "index": self._index[key]}


def _result(artifacts: _Artifacts, report: Report, finding: Finding, rule: int) -> dict[str, Any]:
    kind = kinds()[finding.id]
    wheel = artifacts.location(quote(Path(report.path).as_posix()))
    places = [{"artifactLocation": wheel}]
    if finding.member:
        member = artifacts.location(quote(finding.member), wheel["index"])
        places.append({"artifactLocation": member})
    if finding.line is not None:
        places[-1]["region"] = {"startLine": finding.line}
    elif finding.offset is not None:
        places[0 if finding.in_wheel else -1]["region"] = {"byteOffset": finding.offset}
    first, *more = ({"physicalLocation": place} for place in places)
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": kind.level,
        "message": {"text": f"{kind.wrong}: {finding.got} ({finding.where})"},
        "locations": [first],
        **({"relatedLocations": more} if more else {}),
    }
