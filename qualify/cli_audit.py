"""The commands that judge bytes: `qualify audit` and `qualify survey`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from qualify import console, pipeline, survey, survey_words
from qualify.audit import baseline, report, words
from qualify.console import Beside, Json, Python, Room, Tree, err, out
from qualify.errors import InputError, host_errors
from qualify.matrix import load
from qualify.progress import Teller


def _explain(id: str | None) -> None:
    if id is not None:
        sys.stdout.write(words.explain(id))
        raise typer.Exit


def audit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="wheels; without any, ours are built and audited as a set",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="they are a set, to be installed together")
    ] = False,
    beside: Beside = None,
    write_baseline: Annotated[
        bool,
        typer.Option("--write-baseline", help="add new exports of ours to matrix/exports.toml"),
    ] = False,
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    tree: Tree = Path(),
    as_json: Json = False,
    as_sarif: Annotated[bool, typer.Option("--sarif", help="print SARIF 2.1.0")] = False,
    explained: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="ID", callback=_explain, is_eager=True, help="what a finding means"
        ),
    ] = None,
) -> None:
    """Judge the bytes of wheels by matrix/policy.toml; nothing of them is installed or run.

    Exit status 1 for findings, 2 for a file that is not there.
    """
    if as_json and as_sarif:
        raise InputError("--json and --sarif", expected="one of them", got="both")
    policy = baseline.read(tree)
    named = list(files or [])
    if (together or beside) and not named:
        raise InputError(
            "--together and --beside",
            expected="the wheels of the set, too",
            got="none",
            mend="Our own are a set without being named: qualify audit",
        )
    with host_errors("cannot read a wheel"):
        if write_baseline:
            ours = named or pipeline.built(tree.resolve(), console.stages(tree), python, room)
            console.leave(baseline.extend(tree, policy, ours), _added, True, as_json)
        if not named:
            reports = pipeline.audit(tree.resolve(), console.stages(tree), python, room)
        elif together or beside:
            with _passing() as passing:
                reports = report.audit_together(named, policy, beside=beside or (), reading=passing)
        else:
            reports = []
            with _passing() as passing:
                for path in named:
                    passing(path)
                    reports.append(report.audit(path, policy))
    if as_sarif:
        console.print_json(words.sarif(reports))
    elif as_json:
        console.print_json(reports)
    else:
        out.print(words.render(reports))
    raise typer.Exit(1 if any(each.findings for each in reports) else 0)


def survey_wheels(
    tree: Tree = Path(),
    only: Annotated[
        list[str] | None, typer.Option(help="a pattern of file names; may be given again")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="a folder for the wheels, kept for the next time")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="of audit and reading, for each wheel")] = 3,
    page: Annotated[
        Path | None, typer.Option(help="a file for the results as Markdown, where they agree")
    ] = None,
    as_json: Json = False,
) -> None:
    """Audit the wheels of matrix/survey.toml and compare with what is explained there.

    Downloads gigabytes, one wheel at a time, and goes on where the last run was stopped. Exit
    status 1 where the two disagree.
    """
    if page is not None and only:
        raise InputError(
            "--page", expected="the whole list, which the page is about", got="--only as well"
        )
    listed = load(tree / "matrix" / "survey.toml", survey.Survey)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    done = list(
        survey.survey(
            listed,
            baseline.read(tree),
            console.stages(tree),
            only=tuple(only or "*"),
            keep=keep,
            runs=runs,
        )
    )
    if not done:
        raise InputError("--only", expected="a pattern of listed files", got=", ".join(only or ()))
    disagree = any(each.disagreements for each in done)
    if page is not None and not disagree:
        with host_errors(f"cannot write {page}"):
            page.write_text(survey_words.page(done, listed), encoding="utf-8")
    if as_json:
        console.print_json(done)
    else:
        out.print(survey_words.render(done))
    raise typer.Exit(1 if disagree else 0)


@contextlib.contextmanager
def _passing() -> Iterator[Callable[[Path], None]]:
    """Shows the file that is being read, on a terminal, until it is done."""
    teller = Teller(err)
    tell = teller.pass_by if teller.is_live else lambda line: None
    yield lambda path: tell(f"audit: {words.visible(path.name)}")
    tell("")


def _added(added: dict[str, tuple[str, ...]]) -> Text:
    lines = [f"{member}: added {', '.join(symbols)}" for member, symbols in added.items()]
    return Text("\n".join(lines) or "nothing to add: matrix/exports.toml has every symbol")
