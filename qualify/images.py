"""Clean machines as data: which images there are, and which rooms a Python is tried in."""

from __future__ import annotations

from pathlib import Path

import msgspec

from qualify.engine import Engine
from qualify.interpreter import Interpreter
from qualify.room import RoomSpec
from qualify.stage import Stages
from qualify.wheelhouse import Closure


class Declaration(msgspec.Struct, frozen=True):
    """`containers/images.toml` as typed data."""


def load(path: Path) -> Declaration:
    """Read the declaration; InputError names file, key and what was expected."""
    raise NotImplementedError


def prepare_rooms(
    stages: Stages,
    engine: Engine,
    declaration: Declaration,
    interpreter: Interpreter,
    closure: Closure,
) -> tuple[RoomSpec, ...]:
    """Two room specifications for `interpreter`'s Python, of two OSes where the engine has images.

    Images (base, interpreter, torch closure in a virtual environment) are made
    when they are missing; cheap when nothing changed.
    """
    raise NotImplementedError
