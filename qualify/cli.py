"""The command line. It prints and exits, with `cli_audit` and `console`; nothing else does.

Exit status: 0 for a claim (and for what only shows), 1 for a refusal (of `installs` also
where a room told nothing), that of `qualify.errors` where something could not be found out,
70 for a fault of this program, 128 and the signal's number after one that stops it (130
after Ctrl-C). An error is a JSON object too where `--json` was asked for.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from qualify import (
    ask,
    cli_audit,
    console,
    doctor,
    evidence,
    index,
    inspection,
    install_matrix,
    pipeline,
    show,
    workers,
)
from qualify.audit import report
from qualify.console import AtOnce, Beside, Folder, Json, Python, Room, Tree, err, out
from qualify.errors import HostError, InputError, QualifyError, host_errors
from qualify.stage import cache_root
from qualify.stopping import Stopped, stopping
from qualify.verdict import decide as decide_verdict

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
SHELL_SECONDS = 3600
WRONG_USE = 2  # typer says on standard error what is wrong, and leaves with this
FAULT_OF_OURS = 70  # sysexits.h: internal software error

Tier = Annotated[str, typer.Option(help="a tier of matrix/gates.toml")]


@app.command()
def run(
    python: Python = pipeline.OWN_PYTHON,
    tier: Tier = "experimental",
    room: Room = "auto",
    tree: Tree = Path(),
    folder: Folder = None,
    at_once: AtOnce = workers.AT_ONCE,
    as_json: Json = False,
) -> None:
    """Build the wheels, install them in clean rooms, run the gates, and decide."""
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    stages = console.stages(tree)
    verdict = pipeline.qualify(
        tree,
        kept,
        stages,
        python=python,
        tier=tier,
        room=room,
        today=console.today(),
        at_once=at_once,
    )
    if as_json:
        console.print_json(verdict)
    else:
        out.print(show.timings(stages.timings), "", show.render(verdict, _short(kept / "records")))
    raise typer.Exit(0 if verdict.claim else 1)


@app.command()
def bench(
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    tree: Tree = Path(),
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Measure the figures of bench/ in a clean room, with the wheels installed there."""
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    done = pipeline.bench(
        tree, kept, console.stages(tree), python=python, room=room, as_json=as_json
    )
    sys.stdout.write(done.stdout)
    if not done.ok:
        err.print(done.stderr.strip(), markup=False)
    raise typer.Exit(0 if done.ok else 1)


@app.command()
def rebuild(
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    tree: Tree = Path(),
    as_json: Json = False,
) -> None:
    """Build the wheels twice, the second time in other surroundings, and compare the bytes."""
    tree = tree.resolve()
    report = pipeline.rebuild(tree, console.stages(tree), python=python, room=room)
    console.leave(report, show.rebuilt, report.same, as_json)


@app.command("installs")
def install_everywhere(
    python: Annotated[
        list[str] | None, typer.Option(help="a Python of the matrix [default: all of them]")
    ] = None,
    room: Room = "auto",
    tree: Tree = Path(),
    folder: Folder = None,
    at_once: AtOnce = workers.AT_ONCE,
    as_json: Json = False,
) -> None:
    """Install the wheels in every room of the matrix, and run gate 7 there."""
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    report = install_matrix.install_everywhere(
        tree,
        kept,
        console.stages(tree),
        pythons=tuple(python or ()),
        room=room,
        today=console.today(),
        at_once=at_once,
    )
    console.leave(report, show.installed, report.complete, as_json)


@app.command("cibuildwheel")
def publish(
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    tree: Tree = Path(),
    as_json: Json = False,
) -> None:
    """Build the wheels as the published build does, and compare them with the qualified ones."""
    tree = tree.resolve()
    report = pipeline.publish(tree, console.stages(tree), python=python, room=room)
    console.leave(report, show.rebuilt, report.same, as_json)


@app.command()
def shell(
    command: Annotated[
        list[str] | None, typer.Argument(help="run this, instead of a shell; give it after --")
    ] = None,
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    where: Annotated[
        str, typer.Option("--in", help="the room's name, such as debian12 [default: the first]")
    ] = "",
    tree: Tree = Path(),
    folder: Folder = None,
) -> None:
    """Open a fresh clean room with the wheels and the gates' suites in it; remove it afterwards."""
    if not command and not sys.stdin.isatty():
        raise InputError(
            "a shell needs a terminal",
            expected="one as standard input",
            got="something else",
            mend="Give a command after --: qualify shell -- true",
        )
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    stages = console.stages(tree)
    made = pipeline.prepare(tree, kept, stages, python=python, room=room, named=where)
    with pipeline.visited(tree, made, made.rooms[0]) as (opened, suites):
        if not command:
            raise typer.Exit(opened.shell(cwd=suites))
        done = opened.run(command, cwd=suites, timeout=SHELL_SECONDS)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    raise typer.Exit(done.status if done.status >= 0 else 128 - done.status)


@app.command()
def decide(
    cell: Annotated[str, typer.Option(help="a cell of matrix/cells.toml")],
    tier: Tier = "experimental",
    wheel: Annotated[
        list[Path] | None, typer.Option(help="a wheel that is to be claimed; give all of them")
    ] = None,
    beside: Beside = None,
    today: Annotated[
        datetime.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="for waivers")
    ] = None,
    tree: Tree = Path(),
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Decide from the evidence that is there; runs nothing.

    Wheels that are given are audited; what they do to others is seen with those `--beside`.
    """
    if beside and not wheel:
        raise InputError(
            "--beside",
            expected="the wheels that it is installed with, too",
            got="none",
            mend="Name them with --wheel",
        )
    kept = folder or tree / "evidence"
    matrix = pipeline.read_matrix(tree)
    found, records = index.read(kept), evidence.read_all(kept)
    question = ask.from_index(
        found,
        records,
        cell=matrix.cells.by_id(cell),
        tier=matrix.gates.tier(tier),
        wheels={path.name: _digest(path) for path in wheel} if wheel else None,
    )
    reports = report.audit_together(wheel, matrix.audit, beside=beside or ()) if wheel else []
    verdict = decide_verdict(
        policy=matrix.policy,
        gates=matrix.gates,
        question=question,
        index=found,
        records=records,
        waivers=matrix.waivers.waivers,
        today=today.date() if today else console.today(),
        denials=inspection.denials(reports, matrix.audit),
    )
    if as_json:
        console.print_json(verdict)
    else:
        out.print(show.render(verdict, _short(kept / "records")))
    raise typer.Exit(0 if verdict.claim else 1)


@app.command("show")
def show_file(
    file: Annotated[Path, typer.Argument(help="a verdict, a record, or an evidence folder")],
    as_json: Json = False,
) -> None:
    """Read a verdict, a record or the index to a person."""
    shown = show.read(file)
    if doubt := show.doubt(file, shown):
        err.print(doubt, style="yellow", markup=False)
    if as_json:
        console.print_json(shown)
    else:
        out.print(show.render(shown))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a record."""
    print(json.dumps(evidence.schema(), indent=2))


app.command()(cli_audit.audit)
app.command("survey")(cli_audit.survey_wheels)


@app.command("doctor")
def examine(tree: Tree = Path(), as_json: Json = False) -> None:
    """Say what this machine has for a run, and what it lacks."""
    pythons = tuple(cell.python for cell in pipeline.read_matrix(tree).cells.cells)
    findings = []
    for finding in doctor.examine(cache_root(tree.resolve()), pythons):
        findings.append(finding)
        if not as_json:
            word = "ok     " if finding.ok else "MISSING" if finding.needed else "without"
            mend = "" if finding.ok else f". {finding.mend}"
            out.print(f"{word} {finding.what}: {finding.found}{mend}", markup=False)
    if as_json:
        console.print_json(findings)
    lacking = any(finding.needed and not finding.ok for finding in findings)
    raise typer.Exit(HostError.exit_status if lacking else 0)


def _digest(path: Path) -> str:
    try:
        return evidence.digest(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error


def _short(path: Path) -> Path:
    """`path` relative to the working directory where that is shorter."""
    relative = Path(os.path.relpath(path))
    return relative if len(str(relative)) < len(str(path)) else path


def _tell_programs(error: str, status: int) -> None:
    """As JSON, where that was asked for. A full disk takes not even this."""
    if "--json" not in sys.argv:
        return
    try:
        console.print_json({"error": error, "status": status})
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered goes


def main() -> None:
    """The program `qualify`."""
    try:
        with stopping(), host_errors("cannot go on"):
            app()
    except QualifyError as error:
        _tell_programs(str(error), error.exit_status)
        err.print(f"error: {error}", markup=False)
        sys.exit(error.exit_status)
    except SystemExit as left:
        if left.code == WRONG_USE:
            said = "the command line is wrong; standard error says how"
            _tell_programs(said, WRONG_USE)
        raise
    except Exception as error:
        _tell_programs(repr(error), FAULT_OF_OURS)
        err.print_exception()
        err.print("error: a fault of qualify itself: please report it with the lines above")
        sys.exit(FAULT_OF_OURS)
    except Stopped as stopped:
        err.print("stopped; what was finished is kept, and the next run goes on from there")
        sys.exit(stopped.status)
