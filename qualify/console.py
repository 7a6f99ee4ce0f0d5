"""Where the command line reads and writes: its streams, and what its commands have in common."""

from __future__ import annotations

import datetime
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console, RenderableType

from qualify.errors import InputError
from qualify.progress import Teller
from qualify.stage import Stages, cache_root


def _open_streams() -> None:
    """A standard stream that is closed goes nowhere, and no file takes its number. What a
    terminal's locale has no letter for is written in another way, and is no fault."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _folder(text: str) -> Path:
    if not text:
        raise InputError("--evidence", expected="a folder", got="an empty word")
    return Path(text)


_open_streams()  # before anybody asks what they are
PIPE_COLUMNS = 200  # nobody's terminal bounds a pipe, and a name that is cut can't be searched
out = Console(
    highlight=False,
    soft_wrap=not sys.stdout.isatty(),
    width=None if sys.stdout.isatty() else PIPE_COLUMNS,
)
err = Console(stderr=True, highlight=False, soft_wrap=True)

AtOnce = Annotated[int, typer.Option(min=1, help="how many rooms run gates side by side")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of tables")]
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
Beside = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="a wheel that is installed with the set and not judged itself",
        exists=True,
        dir_okay=False,
        readable=True,
    ),
]
_T = TypeVar("_T")


def stages(tree: Path) -> Stages:
    """The cache of the checkout; what goes on is said on standard error."""
    teller = Teller(err)
    passing = teller.pass_by if teller.is_live else None
    return Stages(cache_root(tree), progress=teller.say, passing=passing)


def leave(report: _T, shown: Callable[[_T], RenderableType], good: bool, as_json: bool) -> NoReturn:
    """Print a report to a person or a program, and leave with the status that it gives."""
    if as_json:
        print_json(report)
    else:
        out.print(shown(report))
    raise typer.Exit(0 if good else 1)


def print_json(value: object) -> None:
    data = msgspec.json.format(msgspec.json.encode(value)) + b"\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(data)  # JSON is UTF-8, whatever the locale is
    sys.stdout.flush()  # a full disk is told here, and not when nobody listens any more


def today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()
