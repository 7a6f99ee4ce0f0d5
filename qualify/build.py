"""The three wheels, from source to files with digests."""

from __future__ import annotations

from pathlib import Path

import msgspec

from qualify.engine import Engine
from qualify.images import Declaration
from qualify.interpreter import Interpreter
from qualify.stage import Stages
from qualify.wheelhouse import Closure


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """A finished wheel; nothing rewrites it any more."""

    path: Path
    sha256: str
    name: str
    version: str


def build_wheels(
    stages: Stages,
    tree: Path,
    closure: Closure,
    engine: Engine,
    declaration: Declaration,
    interpreter: Interpreter,
) -> tuple[Wheel, ...]:
    """Build and repair emu-driver-shim, emu-runtime and torch-emu from the checkout `tree`.

    In the build image when `engine` has images, else on this machine. Each wheel
    is a stage of its own. `closure` gives the torch headers and libraries.
    Raises BuildError with the end of the build's output.
    """
    raise NotImplementedError
