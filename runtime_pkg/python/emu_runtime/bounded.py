"""Calls that may not come back, each in a thread, and programs that make them.

An emud that is stopped answers nobody. Ctrl-C ends the wait, and the program ends all the same.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")
_threads: list[threading.Thread] = []


class LateError(Exception):
    """The call is not back yet."""


class Call(Generic[_Answer]):
    """`body` under way."""

    def __init__(self, body: Callable[[], _Answer]) -> None:
        self._body = body
        self._answer: list[_Answer] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        _threads[:] = [thread for thread in _threads if thread.is_alive()] + [self._thread]

    def _run(self) -> None:
        try:
            self._answer.append(self._body())
        except BaseException as failure:
            self._failure = failure

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float) -> _Answer:
        """What `body` gave or raised. Raises LateError when it is not back in time."""
        self._thread.join(max(0.0, seconds))
        if self._failure is not None:
            raise self._failure
        if not self._answer:
            raise LateError(f"did not end within {seconds:.0f} s")
        return self._answer[0]


def program(name: str, work: Callable[[], int]) -> int:
    """The exit status of a program: that of `work`, 130 after Ctrl-C, 141 when nobody reads on, 1
    when its output cannot be written. Where a call is out it ends here: its end would wait for it.
    """
    try:
        status = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE
        _write_no_more()
    except OSError as error:
        print(f"{name}: standard output: {error.strerror or error}", file=sys.stderr)
        status = 1
        _write_no_more()
    if any(thread.is_alive() for thread in _threads):
        sys.stderr.flush()
        os._exit(status)
    return status


def _write_no_more() -> None:
    """What is left would be tried again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
