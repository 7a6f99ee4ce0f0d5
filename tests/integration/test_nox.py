"""A session that is stopped takes its program with it, which cleans up first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

TREE = Path(__file__).parents[2]
SESSIONS = """
import runpy, nox
call = runpy.run_path({ours!r})["call"]
@nox.session(python=False)
def long(session):
    call(session, {python!r}, "program.py")
"""
PROGRAM = """
import pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path("cleaned").touch()
    sys.exit({status})
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
pathlib.Path("started").touch()
time.sleep(60)
"""


def appears(path: Path) -> bool:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return path.exists()


@pytest.fixture
def nox(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """Nox in a group of its own, running a program through the `call` of our noxfile.

    The parameter is the status with which the program ends when it is stopped.
    """
    sessions = SESSIONS.format(ours=str(TREE / "noxfile.py"), python=sys.executable)
    (tmp_path / "noxfile.py").write_text(sessions)
    status = getattr(request, "param", "128 + number")
    (tmp_path / "program.py").write_text(PROGRAM.format(status=status))
    # What starts in the background of a shell inherits that Ctrl-C is ignored.
    code = "import signal, nox; signal.signal(signal.SIGINT, signal.default_int_handler);"
    words = [sys.executable, "-c", f"{code} nox.main()", "-s", "long"]
    child = subprocess.Popen(words, cwd=tmp_path, start_new_session=True)
    try:
        assert appears(tmp_path / "started")
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_session_that_is_killed_alone_leaves_no_program(
    nox: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    nox.send_signal(number)
    assert nox.wait(30) == -number
    assert appears(tmp_path / "cleaned")


@pytest.mark.parametrize("nox", ["128 + number", "0"], indirect=True)
def test_ctrl_c_is_status_130(nox: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.killpg(nox.pid, signal.SIGINT)
    assert nox.wait(30) == 130
    assert (tmp_path / "cleaned").exists()
