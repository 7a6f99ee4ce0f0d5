"""Calls with a bound, and how a program ends."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from emu_runtime import bounded

STUCK = """
import sys, threading
from emu_runtime import bounded

def work():
    call = bounded.Call(threading.Event().wait)
    try:
        call.result(0.01)
    except bounded.LateError:
        print("late")
        return 3

sys.exit(bounded.program("it", work))
"""


def test_a_call_gives_or_raises_what_it_did() -> None:
    assert bounded.Call(lambda: 7).result(10) == 7
    assert bounded.Call(lambda: None).result(10) is None
    with pytest.raises(ZeroDivisionError):
        bounded.Call(lambda: 1 / 0).result(10)


def test_a_late_call_can_be_asked_again() -> None:
    release = threading.Event()
    call = bounded.Call(lambda: release.wait(30))
    with pytest.raises(bounded.LateError, match="did not end within 0 s"):
        call.result(0.01)
    assert not call.is_over()
    release.set()
    assert call.result(30) is True


@pytest.mark.parametrize(
    ("failure", "status"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left"), 1)]
)
def test_how_a_program_ends(
    failure: BaseException,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> int:
        raise failure

    monkeypatch.setattr(bounded, "_write_no_more", lambda: None)
    assert bounded.program("it", work) == status
    said = "it: standard output: No space left\n" if status == 1 else ""
    assert capsys.readouterr().err == said


def test_a_program_ends_while_a_call_is_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "late\n"), done.stderr
