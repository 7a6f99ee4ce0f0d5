"""Signals that ask a process to stop: it unwinds, so that rooms are removed and locks let go."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class Stopped(BaseException):
    """A signal asked this process to stop; rooms and locks close on the way out."""

    @property
    def status(self) -> int:
        """What a process leaves with that this ended."""
        return 128 + int(self.args[0])


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """The first signal to stop unwinds; while that cleans up, more of them are ignored.

    A terminal that is closed is one, unless nohup said that it shall not be.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    for number in numbers:
        signal.signal(number, stop)
    yield
