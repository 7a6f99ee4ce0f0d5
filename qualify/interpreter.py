"""The Python that was asked for: which one it is, and how it moves into a room."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python of this machine. `version` is "3.12.1", `minor` is "3.12"."""

    executable: Path
    prefix: Path
    version: str
    minor: str


def find(executable: Path = Path(sys.executable)) -> Interpreter:
    """Facts of `executable` (followed out of a virtual environment to its base)."""
    raise NotImplementedError
