"""Which rooms a Python is tried in, and all that is needed to open them.

With a container engine a room's image is three layers, each tagged with the digest of what
made it, so that it is found again and never made twice: a base system from a distribution's
packages, the interpreter asked for (where it is not the distribution's own, a copy of this
machine's or one that is compiled for the room), and torch with its closure in the virtual
environment /opt/venv. Without one, the last is a folder that the sandbox lays over.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from pathlib import Path

import msgspec
from packaging.version import Version

from qualify import container, host, layers, sandbox
from qualify import plain as plain_walls
from qualify.compiled import compile_python
from qualify.container import Apart
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError
from qualify.images import PLAIN, Compiled, Declaration, RoomImage, Setting
from qualify.interpreter import Interpreter, Moved, Python, RoomsOwn, transplant
from qualify.room import RoomFacts, RoomSpec
from qualify.stage import Stages
from qualify.wheelhouse import Closure


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What the rooms of one Python are made of. `images` are two with an engine, else none;
    `able` are all that this Python runs in.

    `moved` is the copy of the interpreter for rooms that have not this Python of their own, nor
    one `compiled` for them.
    """

    engine: Engine
    python: Python
    images: tuple[RoomImage, ...] = ()
    able: tuple[RoomImage, ...] = ()
    moved: Moved | None = None
    compiled: tuple[Compiled, ...] = ()


def choose_rooms(
    stages: Stages, engine: Engine, declaration: Declaration, python: Python, *, fewest: int = 2
) -> Choice:
    """Two rooms for `python`, of two operating systems where the engine has images.

    The first is the OS that has this Python of its own, if one has. Takes seconds, and
    is asked before anything is built: HostError where it runs in fewer than `fewest`.
    Rooms that only one compiled for them runs in are `able`, and none of the two.
    """
    match engine.kind, python:
        case ((RoomKind.DOCKER | RoomKind.PODMAN), _):
            moved = transplant(stages, python) if isinstance(python, Interpreter) else None
            found = _that_run(declaration.room, python, moved)
            if len(found) < fewest:
                raise _too_few(declaration.room, found, python, moved, fewest)
            compiled = tuple(c for c in declaration.compiled if c.python == python.minor)
            named = {each.room for each in compiled}
            more = (image for image in declaration.room if image.name in named)
            return Choice(
                engine=engine,
                python=python,
                images=found[:2],
                able=(*found, *(image for image in more if image not in found)),
                moved=moved,
                compiled=compiled,
            )
        case _, RoomsOwn():
            raise HostError(
                f"there is no Python {python.minor} on this machine",
                expected="a container engine, for a room that has it of its own",
                got=engine.note or engine.kind.value,
                mend=f"Install Python {python.minor}, or a container engine",
            )
        case RoomKind.SANDBOX, Interpreter(of_system=False):
            return Choice(engine=engine, python=python, moved=transplant(stages, python))
        case _:
            return Choice(engine=engine, python=python)


def _that_run(
    declared: tuple[RoomImage, ...], python: Python, moved: Moved | None
) -> tuple[RoomImage, ...]:
    """The images that can be taken, the one with this Python of its own first.

    A program runs with the C library that it was built for or newer; what this machine has not
    is not `moved` anywhere.
    """
    able = [
        image
        for image in declared
        if image.python == python.minor
        or (moved is not None and Version(image.glibc) >= Version(moved.glibc))
    ]
    return tuple(sorted(able, key=lambda image: image.python != python.minor))


def _too_few(
    declared: tuple[RoomImage, ...],
    able: tuple[RoomImage, ...],
    python: Python,
    moved: Moved | None,
    fewest: int,
) -> HostError:
    unable = [image for image in declared if image not in able]
    if moved is None:
        return HostError(
            f"{python.name} does not run in enough rooms",
            expected=f"{fewest} rooms that have it of their own",
            got=", ".join(f"{image.name} has Python {image.python}" for image in unable),
            mend=f"Install Python {python.minor} here, such as with uv python install",
        )
    return HostError(
        f"{python.name} does not run in enough rooms",
        expected=f"{fewest} rooms with glibc {moved.glibc} or newer, which it was built for",
        got=", ".join(f"{image.name} has glibc {image.glibc}" for image in unable),
        mend=f"Take a Python {python.minor} built for an older one (uv python install "
        f"{python.minor}), or pass --room sandbox",
    )


def prepare_rooms(
    stages: Stages, choice: Choice, closure: Closure, hidden: tuple[Path, ...]
) -> tuple[RoomSpec, ...]:
    """The specifications of two rooms, made of what was chosen.

    `hidden` folders (the checkout, at least) must be out of the rooms' reach. Images are
    made when they are missing; cheap when nothing changed.
    """
    engine = choice.engine
    match engine.kind:
        case RoomKind.DOCKER | RoomKind.PODMAN:
            return tuple(
                _container_room(stages, choice, image, closure, hidden) for image in choice.images
            )
        case RoomKind.SANDBOX:
            make: Callable[[str, str], RoomSpec] = _sandbox_rooms(stages, choice, closure, hidden)
        case RoomKind.PLAIN:
            make = _plain_rooms(stages, choice, closure, hidden)
    one, two = names_without_images(engine)
    return make(one, ""), make(two, one)


def names_without_images(engine: Engine) -> tuple[str, str]:
    """Of the two rooms that an engine without images has: the second repeats the first."""
    return f"{engine.kind.value}-1", f"{engine.kind.value}-2"


def require_able(choice: Choice, image: RoomImage) -> None:
    """Raise HostError where this Python does not run in `image`, or there is no engine for it."""
    if image not in choice.able:
        raise HostError(
            f"{choice.python.name} does not run in room {image.name}",
            expected="a container engine, and a Python that the room has, or that was built here "
            "for its C library or an older one",
            got=f"{choice.engine.note}; Python {image.python}, glibc {image.glibc}",
        )


def room_of(
    stages: Stages,
    choice: Choice,
    image: RoomImage,
    setting: Setting,
    closure: Closure,
    hidden: tuple[Path, ...],
    devices: tuple[Apart, ...],
) -> RoomSpec:
    """The room of one image in one setting, which has `devices` where they are apart.

    Raises HostError where this Python does not run in it, or there is no engine to make it.
    """
    require_able(choice, image)
    apart = devices if setting.device_apart else ()
    return _container_room(stages, choice, image, closure, hidden, setting, apart)


def _brought_along(stages: Stages, choice: Choice, image: RoomImage) -> Moved | None:
    """What is put into a room of `image`: the Python compiled for it, if one is declared."""
    for each in choice.compiled:
        if each.room == image.name:
            return compile_python(stages, choice.engine, image, each)
    return choice.moved


def _container_room(
    stages: Stages,
    choice: Choice,
    image: RoomImage,
    closure: Closure,
    hidden: tuple[Path, ...],
    setting: Setting = PLAIN,
    devices: tuple[Apart, ...] = (),
) -> RoomSpec:
    minor = choice.python.minor
    moved = None if image.python == minor else _brought_along(stages, choice, image)
    name = image.name
    if setting.packages:
        more = tuple(sorted({*image.packages, *setting.packages}))
        image = msgspec.structs.replace(image, name=f"{name}-{setting.name}", packages=more)
    made = layers.room_image(stages, choice.engine, image, moved, minor, closure)
    facts = RoomFacts(
        name=name if setting is PLAIN else f"{name}+{setting.name}",
        kind=choice.engine.kind,
        os_id=image.os_id,
        os_version=image.os_version,
        glibc=image.glibc,
        image=made.id,
        python=made.python,
        torch=closure.torch,
        kernel=platform.release(),
        isolation=container.isolation(setting, devices),
    )
    drivers = (device.sha256 for device in devices)
    return msgspec.structs.replace(
        _spec(choice.engine, facts, hidden, str(msgspec.json.encode(setting)), *drivers),
        setting=setting,
        devices=devices,
        packages=image.packages,
    )


def _sandbox_rooms(
    stages: Stages, choice: Choice, closure: Closure, hidden: tuple[Path, ...]
) -> Callable[[str, str], RoomSpec]:
    engine, interpreter = choice.engine, choice.python
    assert isinstance(interpreter, Interpreter), "a room without images has this machine's"
    layer = layers.sandbox_layer(stages, choice.moved, interpreter, closure)
    binds = layers.sandbox_binds(choice.moved, interpreter)
    system = platform.freedesktop_os_release()

    def make(name: str, repeat_of: str) -> RoomSpec:
        facts = RoomFacts(
            name=name,
            kind=engine.kind,
            os_id=system.get("ID", "linux"),
            os_version=system.get("VERSION_ID", system.get("VERSION_CODENAME", "")),
            glibc=platform.libc_ver()[1],
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
    stages: Stages, choice: Choice, closure: Closure, hidden: tuple[Path, ...]
) -> Callable[[str, str], RoomSpec]:
    engine, interpreter = choice.engine, choice.python
    assert isinstance(interpreter, Interpreter), "a room without images has this machine's"
    system = platform.freedesktop_os_release()

    def make(name: str, repeat_of: str) -> RoomSpec:
        facts = RoomFacts(
            name=name,
            kind=engine.kind,
            os_id=system.get("ID", "linux"),
            os_version=system.get("VERSION_ID", system.get("VERSION_CODENAME", "")),
            glibc=platform.libc_ver()[1],
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
