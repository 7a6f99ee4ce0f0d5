"""A program that we start ends with us, however we end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qualify import process
from qualify.errors import HostError

STARTS = """
import sys
from qualify import process
process.run(["sleep", "600"], on_start=lambda pid: print(pid, flush=True))
"""


def test_it_ends_when_this_process_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        command = Path(f"/proc/{pid}/cmdline")
        deadline = time.monotonic() + 30
        while b"sleep" not in command.read_bytes().split(b"\0") and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        while _runs(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("env", [None, {}, {"PATH": "/nowhere"}])
def test_a_program_that_is_not_there(env: dict[str, str] | None) -> None:
    with pytest.raises(HostError, match="cannot start no-such-program"):
        process.run(["no-such-program"], env=env)


def test_words_are_kept_as_they_were_given() -> None:
    done = process.run(["sh", "-c", "exit 3"])
    assert done.argv == ("sh", "-c", "exit 3") and done.status == 3
