"""docs/audit-comparison.md: what each tool said of each defect, and the counts."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from dataclasses import dataclass

from broken_wheels.tools import TOOLS

OURS = "qualify audit"
NOT_LOOKED_AT = "n/a"
NOT_CLAIMED = "-"
ALARM = " (!)"
PAGE = """\
# The audit beside other tools

Written by `nox -s compare-audits`, which makes the wheels of `tests/integration/broken_wheels/`,
calls each tool on each broken wheel and on its good twin, and compares. Rows are defects, by the id
of their finding; `qualify audit --explain ID` says what each one means.

- *caught*: the tool says of the broken wheel what it does not say of the twin, by a code of its own
  or a status that is not 0. *passed*: it does not.
- *-*: passed, and the tool does not claim to look at such things.
- *n/a*: the tool tells that it does not look at such a file.
- *(!)*: it says something of the twin too, a false alarm.

The corpus was made for our audit, which has to find everything in it: that no other tool does says
nothing against tools with another purpose. The last table has defects that others look for and our
audit does not. Python {python}, {machine}.

| tool | version | what it looks at, by its documentation |
|---|---|---|
| qualify audit | this repository | `docs/audit.md` |
{tools}
## Counts

| | {titles} |
|---|{dashes}
{counts}
{tables}"""


@dataclass(frozen=True)
class Cell:
    word: str
    alarm: bool


@dataclass(frozen=True)
class Row:
    """`cells` by the name of the tool."""

    name: str
    group: str
    cells: dict[str, Cell]


def page(rows: list[Row]) -> str:
    names = [OURS, *(tool.name for tool in TOOLS)]
    corpus = [row for row in rows if row.group != "beyond"]
    groups = dict.fromkeys(row.group for row in corpus)
    titles = {group: group[:1].upper() + group[1:] for group in groups}
    titles["beyond"] = "Defects that others look for, and our audit does not"
    tables = [
        f"## {title}\n\n{_table([row for row in rows if row.group == group], names)}"
        for group, title in titles.items()
    ]
    return PAGE.format(
        python=platform.python_version(),
        machine=platform.machine(),
        tools="".join(
            f"| {tool.name} | {importlib.metadata.version(tool.name)} | {tool.about} |\n"
            for tool in TOOLS
        ),
        titles=" | ".join(names),
        dashes="---|" * len(names),
        counts="".join(_counts(corpus, names, groups)),
        tables="\n".join(tables),
    )


def _claims(name: str) -> tuple[str, ...] | None:
    """None for ours, which claims all."""
    return next((tool.claims for tool in TOOLS if tool.name == name), None)


def _claimed(row: Row, name: str) -> bool:
    claims = _claims(name)
    return claims is None or row.group in claims


def _counts(rows: list[Row], names: list[str], groups: dict[str, None]) -> list[str]:
    lines = [_line("caught, of all", rows, names)]
    for group in groups:
        lines.append(_line(f"caught, {group}", [r for r in rows if r.group == group], names))
    claimed = [
        f"{sum(r.cells[n].word == 'caught' for r in rows if _claimed(r, n))} of "
        f"{sum(_claimed(r, n) for r in rows)}"
        for n in names
    ]
    lines.append(f"| caught, of the groups it claims | {' | '.join(claimed)} |\n")
    looked = [[r for r in rows if r.cells[n].word != NOT_LOOKED_AT] for n in names]
    alarms = [
        f"{sum(r.cells[n].alarm for r in found)} of {len(found)}"
        for n, found in zip(names, looked, strict=True)
    ]
    lines.append(f"| false alarms, of the twins it looks at | {' | '.join(alarms)} |\n")
    return lines


def _line(title: str, rows: list[Row], names: list[str]) -> str:
    counts = [f"{sum(r.cells[n].word == 'caught' for r in rows)} of {len(rows)}" for n in names]
    return f"| {title} | {' | '.join(counts)} |\n"


def _table(rows: list[Row], names: list[str]) -> str:
    lines = [f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}\n"]
    for row in rows:
        words = [_word(row, name) for name in names]
        lines.append(f"| {row.name} | {' | '.join(words)} |\n")
    return "".join(lines)


def _word(row: Row, name: str) -> str:
    cell = row.cells[name]
    word = cell.word
    if word == "passed" and not _claimed(row, name):
        word = NOT_CLAIMED
    return word + ALARM * cell.alarm


def read(text: str, column: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a page says in one column: the words of its rows, and its counts."""
    cells: dict[str, str] = {}
    counts: dict[str, str] = {}
    at = 0
    for line in text.splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        if not fields[0] and column in fields:
            at = fields.index(column)
        elif at and line.startswith("| ") and len(fields) > at:
            kept = counts if re.match(r"(caught|false alarms),", fields[0]) else cells
            kept[fields[0]] = fields[at]
    return cells, counts
