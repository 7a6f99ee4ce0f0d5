"""A survey in words: a table for people, and the page docs/audit-survey.md."""

from __future__ import annotations

import platform
import statistics
from collections import Counter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qualify.survey import Explained, Survey, Surveyed

PAGE = """\
# Survey: the audit on wheels that people install

Written by `nox -s survey -- --page docs/audit-survey.md`. The files and the explanations are
`matrix/survey.toml`. A finding that is not explained there, or an explanation without its finding,
fails the session.

{summary}

## What was found, and why it is true

| finding | times | wheels | why |
|---|---|---|---|
{found}
## Each wheel

`s` is processor time of the audit, `ratio` that to reading and decompressing every member with
Python's `zipfile`, medians of runs that took turns; Python {python}, {machine}. Small files take
a few milliseconds either way.

| wheel | MB | members | compiled | findings | s | ratio |
|---|---|---|---|---|---|---|
{wheels}"""


def summary(done: list[Surveyed]) -> str:
    compiled = sum(each.binaries > 0 for each in done)
    clean = sum(not each.findings for each in done)
    total = sum(len(each.findings) for each in done)
    wrong = sum(len(each.disagreements) for each in done)
    large = [each.ratio for each in done if each.bytes >= 10_000_000]
    size = sum(each.bytes for each in done) / 1e6
    words = [f"{len(done)} wheels, {compiled} of them with compiled code, {size:.0f} MB."]
    words += [f"{clean} of {len(done)} have no finding; {total} findings in the others."]
    words += [f"Disagreements with the list: {wrong}."]
    if large:
        words += [f"The median ratio of those over 10 MB is {statistics.median(large):.2f}."]
    return " ".join(words)


def render(done: list[Surveyed]) -> RenderableType:
    table = Table(box=None)
    table.add_column("wheel", overflow="fold")
    for title in ("MB", "members", "compiled", "findings", "s", "ratio"):
        table.add_column(title, justify="right")
    for each in done:
        table.add_row(each.file, *_figures(each))
    wrong = [Text(f"{each.file}: {said}") for each in done for said in each.disagreements]
    return Group(table, *wrong, Text(summary(done)))


def page(done: list[Surveyed], listed: Survey) -> str:
    files = {each.file for each in done}
    found = "".join(_explained(one) for one in listed.explained if set(one.found) & files)
    wheels = "".join(f"| {each.file} | {' | '.join(_figures(each))} |\n" for each in done)
    return PAGE.format(
        summary=summary(done),
        found=found,
        wheels=wheels,
        python=platform.python_version(),
        machine=platform.machine(),
    )


def _explained(one: Explained) -> str:
    names = Counter(file.partition("-")[0] for file in one.found)
    wheels = ", ".join(
        f"{name} ({count} files)" if count > 1 else name for name, count in names.items()
    )
    because = one.because.replace("|", "\\|")
    return f"| {one.finding} | {sum(one.found.values())} | {wheels} | {because} |\n"


def _figures(each: Surveyed) -> tuple[str, ...]:
    return (
        f"{each.bytes / 1e6:.1f}",
        str(each.members),
        str(each.binaries),
        str(len(each.findings)),
        f"{each.audit_seconds:.2f}",
        f"{each.ratio:.2f}",
    )
