"""Clean machines as data: which images there are, and which rooms a Python is tried in.

`containers/images.toml` declares them. With a container engine an image is three
layers, each tagged with the digest of what made it, so that it is found again and
never made twice: a base system from a distribution's packages, the interpreter
asked for (where it is not the distribution's own), and torch with its closure in
the virtual environment /opt/venv. Without one, the last is a folder that the
sandbox lays over.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from qualify import container, host, layers, matrix, sandbox
from qualify import plain as plain_walls
from qualify.engine import Engine, RoomKind
from qualify.interpreter import Interpreter, transplant
from qualify.room import RoomFacts, RoomSpec
from qualify.stage import Stages
from qualify.wheelhouse import Closure


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One base system. `python` is the minor version that it has of its own."""

    name: str
    os_id: str
    os_version: str
    suite: str
    python: str
    packages: tuple[str, ...]
    tools: tuple[str, ...] = ()
    upstream: Annotated[str, msgspec.Meta(pattern="^(|.+@sha256:[0-9a-f]{64})$")] = ""
    """An image of a registry, by digest only: a tag moves."""


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`containers/images.toml` as typed data."""

    build: Image
    room: Annotated[tuple[Image, ...], msgspec.Meta(min_length=2)]


def load(path: Path) -> Declaration:
    """Read the declaration; InputError names file, line, key and what was expected."""
    return matrix.load(path, Declaration)


def prepare_rooms(
    stages: Stages,
    engine: Engine,
    declaration: Declaration,
    interpreter: Interpreter,
    closure: Closure,
    hidden: tuple[Path, ...],
) -> tuple[RoomSpec, ...]:
    """Two room specifications for `interpreter`'s Python, of two OSes where the engine has images.

    The first is the OS that has this Python of its own, if one has. `hidden` folders
    (the checkout, at least) must be out of the rooms' reach. Images are made when
    they are missing; cheap when nothing changed.
    """
    match engine.kind:
        case RoomKind.DOCKER | RoomKind.PODMAN:
            images = sorted(declaration.room, key=lambda image: image.python != interpreter.minor)
            return tuple(
                _container_room(stages, engine, image, interpreter, closure, hidden)
                for image in images[:2]
            )
        case RoomKind.SANDBOX:
            make: Callable[[str, str], RoomSpec] = _sandbox_rooms(
                stages, engine, interpreter, closure, hidden
            )
        case RoomKind.PLAIN:
            make = _plain_rooms(stages, engine, interpreter, closure, hidden)
    first = make(f"{engine.kind.value}-1", "")
    return first, make(f"{engine.kind.value}-2", first.facts.name)


def _container_room(
    stages: Stages,
    engine: Engine,
    image: Image,
    interpreter: Interpreter,
    closure: Closure,
    hidden: tuple[Path, ...],
) -> RoomSpec:
    moved = None if image.python == interpreter.minor else transplant(stages, interpreter)
    made = layers.room_image(stages, engine, image, moved, interpreter.minor, closure)
    facts = RoomFacts(
        name=image.name,
        kind=engine.kind,
        os_id=image.os_id,
        os_version=image.os_version,
        image=made.id,
        python=made.python,
        torch=closure.torch,
        kernel=platform.release(),
        isolation=container.ISOLATION,
    )
    return _spec(engine, facts, hidden)


def _sandbox_rooms(
    stages: Stages,
    engine: Engine,
    interpreter: Interpreter,
    closure: Closure,
    hidden: tuple[Path, ...],
) -> Callable[[str, str], RoomSpec]:
    moved = transplant(stages, interpreter) if interpreter.movable else None
    layer = layers.sandbox_layer(stages, moved, interpreter, closure)
    binds = layers.sandbox_binds(moved, interpreter)
    system = platform.freedesktop_os_release()

    def make(name: str, repeat_of: str) -> RoomSpec:
        facts = RoomFacts(
            name=name,
            kind=engine.kind,
            os_id=system.get("ID", "linux"),
            os_version=system.get("VERSION_ID", ""),
            image=layer.key,
            python=interpreter.version,
            torch=closure.torch,
            kernel=platform.release(),
            isolation=sandbox.ISOLATION,
            repeat_of=repeat_of,
        )
        plan = sandbox.plan(binds=binds, overlays=[(layer.path, "/opt/venv")], hidden=hidden)
        made = _spec(engine, facts, hidden, layer.sha256, host.software())
        return msgspec.structs.replace(made, sandbox=plan)

    return make


def _plain_rooms(
    stages: Stages,
    engine: Engine,
    interpreter: Interpreter,
    closure: Closure,
    hidden: tuple[Path, ...],
) -> Callable[[str, str], RoomSpec]:
    system = platform.freedesktop_os_release()

    def make(name: str, repeat_of: str) -> RoomSpec:
        facts = RoomFacts(
            name=name,
            kind=engine.kind,
            os_id=system.get("ID", "linux"),
            os_version=system.get("VERSION_ID", ""),
            image="",
            python=interpreter.version,
            torch=closure.torch,
            kernel=platform.release(),
            isolation=plain_walls.ISOLATION,
            repeat_of=repeat_of,
        )
        return msgspec.structs.replace(
            _spec(engine, facts, hidden, closure.sha256, host.software()),
            interpreter=interpreter.executable,
            wheelhouse=closure.folder,
            scratch=stages.root / "rooms",
        )

    return make


def _spec(
    engine: Engine, facts: RoomFacts, hidden: tuple[Path, ...], *without_image: str
) -> RoomSpec:
    """The digest is over the facts, and over what a room `without_image` is made of beside them:
    whatever would change a gate's answer is in it."""
    digest = hashlib.sha256(msgspec.json.encode([facts, *without_image])).hexdigest()
    return RoomSpec(engine=engine, facts=facts, digest=digest, hidden=hidden)
