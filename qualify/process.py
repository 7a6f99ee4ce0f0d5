"""The one door to other processes.

Every program that the pipeline starts is started here, and what comes back
(argv, status, output, seconds) goes into evidence as it is. A child gets a
process group of its own, so that an interrupt or a timeout ends all of it; and the
kernel ends it (not what it started in turn) when this process is killed, where util-linux
has the program for that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from qualify.errors import HostError


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """What one finished process did. `seconds` is wall time; `status` is -N for signal N."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.status == 0 and not self.timed_out


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float | None = None,
    log: Path | None = None,
    on_start: Callable[[int], None] | None = None,
) -> Completed:
    """Run `argv` to its end; never raises for a non-zero status.

    `env` replaces the environment when given. After `timeout` seconds the whole
    process group is killed and `timed_out` is true. With `log`, standard output goes
    into that file as it comes. Raises HostError when the program is not there.
    """
    words = tuple(os.fspath(word) for word in argv)
    start = time.monotonic()
    to = log.open("wb") if log else None
    try:
        child = subprocess.Popen(
            _with_us(words, env, "KILL"),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.PIPE,
            stdout=to or subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise HostError(
            f"cannot start {words[0]}", expected="a program on PATH", got=str(error)
        ) from error
    finally:
        if to is not None:
            to.close()
    timed_out = False
    try:
        if on_start is not None:
            on_start(child.pid)
        out, err = child.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill_group(child)
        out, err = _rest(child)
    except BaseException:
        _kill_group(child)
        child.wait()
        raise
    if log is not None:
        out = log.read_bytes()
    return Completed(
        argv=words,
        status=child.returncode,
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        seconds=time.monotonic() - start,
        timed_out=timed_out,
    )


def _with_us(words: tuple[str, ...], env: Mapping[str, str] | None, ending: str) -> tuple[str, ...]:
    """`words`, which get the signal `ending` when this process ends. As they are where the program
    is not there, for the error that says so."""
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    setpriv = shutil.which("setpriv")
    if setpriv is None or shutil.which(words[0], path=path) is None:
        return words
    return (setpriv, "--pdeathsig", ending, "--", *words)


def _rest(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What a killed child had said; a descendant that left its group may hold the pipes open."""
    try:
        return child.communicate(timeout=5)
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", late.stderr or b""


def attach(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> int:
    """Run `argv` on our own terminal to its end, and return its status. Ctrl-C is for it alone."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.call(tuple(argv), env=dict(env) if env is not None else None)
    except FileNotFoundError as error:
        raise HostError(
            f"cannot start {argv[0]}", expected="a program on PATH", got=str(error)
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)


def start(argv: Sequence[str | os.PathLike[str]], *, ending: str = "") -> subprocess.Popen[bytes]:
    """Start a companion that lives until its standard input is closed, as it is when we die.

    One that has work of its own gets the signal `ending` then, from the kernel.
    Its group is its own, so that Ctrl-C reaches it only through us. Standard output
    is a pipe; standard error is kept in a pipe too and must stay small.
    """
    words = tuple(os.fspath(word) for word in argv)
    return subprocess.Popen(
        _with_us(words, None, ending) if ending else words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
