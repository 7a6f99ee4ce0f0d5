"""What long work shows: sizes, the end of a log, and lines that the next one replaces."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from qualify import process
from qualify.progress import LOG, Teller, so_far


def test_of_a_folder_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    assert so_far(tmp_path / "none") == so_far(tmp_path) == ""


def test_bytes_and_the_last_whole_thing_that_the_tool_said(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "wheel").write_bytes(bytes(2_000_000))
    (tmp_path / "deep" / "link").symlink_to("nowhere")
    assert so_far(tmp_path) == "2.0 MB"
    (tmp_path / LOG).write_bytes(b"-" * 10_000 + b"\none\n\x1b[32mtwo\xff\x07\n\n")
    assert so_far(tmp_path) == "2.0 MB; [32mtwo\N{REPLACEMENT CHARACTER}"


def test_what_a_process_says_can_be_read_while_it_runs(tmp_path: Path) -> None:
    log = tmp_path / LOG
    code = (
        "import pathlib, sys; print('first', flush=True); print('bad', file=sys.stderr);"
        "print('seen', pathlib.Path(sys.argv[1]).read_text().strip())"
    )
    done = process.run([sys.executable, "-c", code, log], log=log, timeout=60)
    assert done.ok and done.stdout == log.read_text() == "first\nseen first\n"
    assert done.stderr == "bad\n"


def test_on_a_terminal_a_passing_line_is_replaced() -> None:
    shown = io.StringIO()
    console = Console(
        file=shown,
        force_terminal=True,
        width=20,
        soft_wrap=True,
        highlight=False,
        _environ={"TERM": "xterm"},
    )
    teller = Teller(console)
    assert teller.is_live
    teller.say("one")
    teller.pass_by("a: 2 s, longer than the terminal is wide")
    teller.pass_by("a: 4 s")
    teller.say("a: done [in] 5 s, and said whole")
    clear = "\r\x1b[2K"
    assert shown.getvalue() == (
        f"one\n{clear}a: 2 s, longer than{clear}a: 4 s{clear}a: done [in] 5 s, and said whole\n"
    )


def test_where_nothing_can_be_replaced_there_is_no_passing_line() -> None:
    assert not Teller(Console(file=io.StringIO())).is_live
    dumb = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert not Teller(dumb).is_live
