"""The wheels of others that a room installs: torch and its closure, and the gates' tools.

One folder a Python, so that `pip install --no-index --find-links FOLDER` needs
nothing else. Files that several Pythons share are one file on disk.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from qualify.interpreter import Interpreter
from qualify.stage import Stages


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """A complete wheelhouse. `sha256` is over the sorted (file name, digest) lines."""

    folder: Path
    python: str
    sha256: str
    torch: str
    """Version of torch as its wheel says it, such as "2.13.0+cpu"."""
    torch_wheel: Path


def fetch(stages: Stages, interpreter: Interpreter, constraints: Path) -> Closure:
    """Download what `constraints` pins, for `interpreter`; only wheels, never a source build."""
    raise NotImplementedError
