"""The command line. It alone prints and exits.

Exit status: 0 for a claim (and for what only shows), 1 for a refusal, that of
`qualify.errors` where something could not be found out, 70 for a fault of this program,
128 and the signal's number after one that stops it (130 after Ctrl-C). An error is a JSON
object too where `--json` was asked for.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console, RenderableType

from qualify import (
    ask,
    doctor,
    evidence,
    index,
    inspection,
    pipeline,
    show,
    survey,
    survey_words,
)
from qualify.audit import baseline, report, words
from qualify.errors import HostError, InputError, QualifyError, host_errors
from qualify.matrix import load
from qualify.progress import Teller
from qualify.stage import Stages, cache_root
from qualify.verdict import decide as decide_verdict


def _open_streams() -> None:
    """A standard stream that is closed goes nowhere, and no file takes its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def _folder(text: str) -> Path:
    if not text:
        raise InputError("--evidence", expected="a folder", got="an empty word")
    return Path(text)


_open_streams()  # before anybody asks what they are
app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
PIPE_COLUMNS = 200  # nobody's terminal bounds a pipe, and a name that is cut can't be searched
out = Console(
    highlight=False,
    soft_wrap=not sys.stdout.isatty(),
    width=None if sys.stdout.isatty() else PIPE_COLUMNS,
)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_T = TypeVar("_T")
SHELL_SECONDS = 3600
WRONG_USE = 2  # typer says on standard error what is wrong, and leaves with this
FAULT_OF_OURS = 70  # sysexits.h: internal software error

Json = Annotated[bool, typer.Option("--json", help="print JSON instead of tables")]
Tier = Annotated[str, typer.Option(help="a tier of matrix/gates.toml")]
Python = Annotated[str, typer.Option(help="Python version of the cell, such as 3.12")]
Room = Annotated[str, typer.Option(help="auto, docker, podman, sandbox or plain")]
Tree = Annotated[Path, typer.Option(help="the checkout", exists=True, file_okay=False)]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--evidence",
        parser=_folder,
        metavar="FOLDER",
        help="the evidence folder [default: TREE/evidence]",
    ),
]


@app.command()
def run(
    python: Python = pipeline.OWN_PYTHON,
    tier: Tier = "experimental",
    room: Room = "auto",
    tree: Tree = Path(),
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Build the wheels, install them in clean rooms, run the gates, and decide."""
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    stages = _stages(tree)
    verdict = pipeline.qualify(
        tree, kept, stages, python=python, tier=tier, room=room, today=_today()
    )
    if as_json:
        _print_json(verdict)
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
    done = pipeline.bench(tree, kept, _stages(tree), python=python, room=room, as_json=as_json)
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
    report = pipeline.rebuild(tree, _stages(tree), python=python, room=room)
    _leave(report, show.rebuilt, report.same, as_json)


@app.command("installs")
def install_everywhere(
    python: Annotated[
        list[str] | None, typer.Option(help="a Python of the matrix [default: all of them]")
    ] = None,
    room: Room = "auto",
    tree: Tree = Path(),
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Install the wheels in every room of the matrix, and run gate 7 there."""
    tree = tree.resolve()
    kept = (folder or tree / "evidence").resolve()
    report = pipeline.install_everywhere(
        tree, kept, _stages(tree), pythons=tuple(python or ()), room=room, today=_today()
    )
    _leave(report, show.installed, report.complete, as_json)


@app.command("cibuildwheel")
def publish(
    python: Python = pipeline.OWN_PYTHON,
    room: Room = "auto",
    tree: Tree = Path(),
    as_json: Json = False,
) -> None:
    """Build the wheels as the published build does, and compare them with the qualified ones."""
    tree = tree.resolve()
    report = pipeline.publish(tree, _stages(tree), python=python, room=room)
    _leave(report, show.rebuilt, report.same, as_json)


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
    made = pipeline.prepare(tree, kept, _stages(tree), python=python, room=room)
    with pipeline.visited(tree, made, where) as (opened, suites):
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
    today: Annotated[
        datetime.datetime | None, typer.Option(formats=["%Y-%m-%d"], help="for waivers")
    ] = None,
    tree: Tree = Path(),
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Decide from the evidence that is there; runs nothing. Wheels that are given are audited."""
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
    reports = report.audit_together(wheel, matrix.audit) if wheel else []
    verdict = decide_verdict(
        policy=matrix.policy,
        gates=matrix.gates,
        question=question,
        index=found,
        records=records,
        waivers=matrix.waivers.waivers,
        today=today.date() if today else _today(),
        denials=inspection.denials(reports, matrix.audit),
    )
    if as_json:
        _print_json(verdict)
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
        _print_json(shown)
    else:
        out.print(show.render(shown))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a record."""
    print(json.dumps(evidence.schema(), indent=2))


def _explain(id: str | None) -> None:
    if id:
        sys.stdout.write(words.explain(id))
        raise typer.Exit


@app.command()
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
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="a wheel that is installed with the set and not judged itself",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ] = None,
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
            ours = named or pipeline.built(tree.resolve(), _stages(tree), python, room)
            _print_added(baseline.extend(tree, policy, ours))
            raise typer.Exit
        if not named:
            reports = pipeline.audit(tree.resolve(), _stages(tree), python, room)
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
        _print_json(words.sarif(reports))
    elif as_json:
        _print_json(reports)
    else:
        out.print(words.render(reports))
    raise typer.Exit(1 if any(each.findings for each in reports) else 0)


@app.command("survey")
def survey_wheels(
    tree: Tree = Path(),
    only: Annotated[
        list[str] | None, typer.Option(help="a pattern of file names; may be given again")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(help="a folder for the wheels, kept for the next time")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="of audit and reading, for each wheel")] = 3,
    page: Annotated[Path | None, typer.Option(help="a file for the results as Markdown")] = None,
    as_json: Json = False,
) -> None:
    """Audit the wheels of matrix/survey.toml and compare with what is explained there.

    Downloads gigabytes, one wheel at a time. Exit status 1 where the two disagree.
    """
    listed = load(tree / "matrix" / "survey.toml", survey.Survey)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    done = list(
        survey.survey(
            listed,
            baseline.read(tree),
            only=tuple(only or "*"),
            keep=keep,
            runs=runs,
            tell=Teller(err).say,
        )
    )
    if not done:
        raise InputError("--only", expected="a pattern of listed files", got=", ".join(only or ()))
    if page is not None:
        with host_errors(f"cannot write {page}"):
            page.write_text(survey_words.page(done, listed), encoding="utf-8")
    if as_json:
        _print_json(done)
    else:
        out.print(survey_words.render(done))
    raise typer.Exit(1 if any(each.disagreements for each in done) else 0)


@contextlib.contextmanager
def _passing() -> Iterator[Callable[[Path], None]]:
    """Shows the file that is being read, on a terminal, until it is done."""
    teller = Teller(err)
    tell = teller.pass_by if teller.is_live else lambda line: None
    yield lambda path: tell(f"audit: {words.visible(path.name)}")
    tell("")


def _print_added(added: dict[str, tuple[str, ...]]) -> None:
    for member, symbols in added.items():
        out.print(f"{member}: added {', '.join(symbols)}", markup=False)
    if not added:
        out.print("nothing to add: matrix/exports.toml has every symbol")


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
        _print_json(findings)
    lacking = any(finding.needed and not finding.ok for finding in findings)
    raise typer.Exit(HostError.exit_status if lacking else 0)


def _stages(tree: Path) -> Stages:
    """The cache of the checkout; what goes on is said on standard error."""
    teller = Teller(err)
    passing = teller.pass_by if teller.is_live else None
    return Stages(cache_root(tree), progress=teller.say, passing=passing)


def _leave(
    report: _T, shown: Callable[[_T], RenderableType], good: bool, as_json: bool
) -> NoReturn:
    """Print a report to a person or a program, and leave with the status that it gives."""
    if as_json:
        _print_json(report)
    else:
        out.print(shown(report))
    raise typer.Exit(0 if good else 1)


def _print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def _digest(path: Path) -> str:
    try:
        return evidence.digest(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error


def _short(path: Path) -> Path:
    """`path` relative to the working directory where that is shorter."""
    relative = Path(os.path.relpath(path))
    return relative if len(str(relative)) < len(str(path)) else path


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


class _Stopped(BaseException):
    """A signal asked this process to stop; rooms and locks close on the way out."""


@contextlib.contextmanager
def _stopping() -> Iterator[None]:
    """The first signal to stop unwinds; while that cleans up, more of them are ignored.

    A terminal that is closed is one, unless nohup said that it shall not be.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise _Stopped(number)

    for number in numbers:
        signal.signal(number, stop)
    yield


def main() -> None:
    """The program `qualify`."""
    try:
        with _stopping(), host_errors("cannot go on"):
            app()
    except QualifyError as error:
        if "--json" in sys.argv:
            _print_json({"error": str(error), "status": error.exit_status})
        err.print(f"error: {error}", markup=False)
        sys.exit(error.exit_status)
    except SystemExit as left:
        if left.code == WRONG_USE and "--json" in sys.argv:
            said = "the command line is wrong; standard error says how"
            _print_json({"error": said, "status": WRONG_USE})
        raise
    except Exception as error:
        if "--json" in sys.argv:
            _print_json({"error": repr(error), "status": FAULT_OF_OURS})
        err.print_exception()
        err.print("error: a fault of qualify itself: please report it with the lines above")
        sys.exit(FAULT_OF_OURS)
    except _Stopped as stopped:
        err.print("stopped; what was finished is kept, and the next run goes on from there")
        sys.exit(128 + int(stopped.args[0]))
