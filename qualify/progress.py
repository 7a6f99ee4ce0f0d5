"""What long work shows while it lasts: how much there is of it, and the last that its tool said."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from rich.console import Console

LOG = "build.log"
"""Where in the folder of what is being made the output of the tool goes, as it comes."""
_TAIL_BYTES = 4096
_CLEAR = "\r\x1b[2K"


def so_far(folder: Path) -> str:
    """The size of what is in `folder` by now, and the last line of its log, if it has one."""
    size = size_of(folder)
    words = [f"{size / 1e6:.1f} MB"] if size >= 0.1e6 else []
    if line := _last_line(folder / LOG):
        words.append(line)
    return "; ".join(words)


class Teller:
    """Tells lines. On a terminal the last may be a passing one, which the next replaces."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._passing = False
        self._lock = threading.Lock()
        self.is_live = console.is_terminal and not console.is_dumb_terminal

    def say(self, line: str) -> None:
        with self._lock:
            if self._passing:
                self._console.file.write(_CLEAR)
                self._passing = False
            self._console.print(line, markup=False)

    def pass_by(self, line: str) -> None:
        """Show `line` until the next one, cut to the terminal's width so that it is one row."""
        with self._lock:
            self._console.file.write(_CLEAR + line[: self._console.width - 1])
            self._console.file.flush()
            self._passing = True


def size_of(folder: Path) -> int:
    """Bytes of the files below `folder`; one that goes away meanwhile counts nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(path, name).lstat().st_size
    return total


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable()) if lines else ""
