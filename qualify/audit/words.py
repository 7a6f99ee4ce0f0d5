"""Reports in words, as a table for people, and as SARIF 2.1.0 for code hosts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qualify import __version__
from qualify.audit.finding import Finding, kinds
from qualify.audit.report import Report
from qualify.errors import InputError

SARIF = "2.1.0"
SHOWN = 5
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
    """Findings of one kind together, `SHOWN` of them; the rest is in JSON."""
    shown: list[RenderableType] = []
    for report in reports:
        name = visible(Path(report.path).name)
        shown.append(Text(f"{name}: {_count(report)}", style="bold"))
        for id in dict.fromkeys(finding.id for finding in report.findings):
            kind = kinds()[id]
            same = [finding for finding in report.findings if finding.id == id]
            shown.append(Text(f"{kind.level} {id}: {kind.wrong}. {kind.seen} {kind.mend}"))
            table = Table(box=None, show_header=False, padding=(0, 2))
            for finding in same[:SHOWN]:
                where, got = visible(finding.where), visible(finding.got)
                table.add_row(Text(where, overflow="fold"), Text(got, overflow="fold"))
            if len(same) > SHOWN:
                table.add_row(f"and {len(same) - SHOWN} more", "")
            shown.append(table)
        reasons = Counter((one.finding.id, one.reason) for one in report.accepted)
        for (id, reason), count in reasons.items():
            shown.append(Text(f"accepted {id}, {count} times: {reason}"))
        shown.append(Text(""))
    return Group(*shown[:-1])


def _count(report: Report) -> str:
    number = len(report.findings)
    findings = "no findings" if not number else f"{number} finding{'s' * (number > 1)}"
    return f"{findings} in {report.members} members, {report.binaries} of them compiled"


def visible(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sarif(reports: list[Report]) -> dict[str, Any]:
    """One run over all wheels. Members are logical locations: they are no files of the tree."""
    used = sorted({f.id for report in reports for f in report.findings})
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
    results = [
        _result(report, finding, used.index(finding.id))
        for report in reports
        for finding in report.findings
    ]
    driver = {"name": "qualify audit", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return {"version": SARIF, "$schema": SCHEMA, "runs": [run]}


def _result(report: Report, finding: Finding, rule: int) -> dict[str, Any]:
    kind = kinds()[finding.id]
    text = f"{kind.wrong}: {finding.got} ({finding.where})"
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(Path(report.path).as_posix())}}
    }
    if finding.member:
        name = {"fullyQualifiedName": f"{finding.wheel}/{finding.member}", "kind": "resource"}
        location["logicalLocations"] = [name]
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": kind.level,
        "message": {"text": text},
        "locations": [location],
    }
