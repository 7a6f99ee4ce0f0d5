"""Which rooms a Python is tried in, and what is refused before anything is built."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from qualify import images, interpreter, rooms
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError
from qualify.interpreter import Moved, RoomsOwn
from qualify.layers import Layer
from qualify.stage import Stages
from qualify.wheelhouse import Closure

OURS = Path(__file__).parents[2] / "containers" / "images.toml"
DOCKER = Engine(kind=RoomKind.DOCKER, endpoint="unix:///nowhere")
CLOSURE = Closure(
    folder=Path("/w"), python="3.99", sha256="0" * 64, torch="2.13.0", torch_wheel=Path("/w/t.whl")
)


def test_the_room_with_this_python_of_its_own_comes_first(tmp_path: Path) -> None:
    declared = images.load(OURS)
    python = interpreter.find()
    any_python = msgspec.structs.replace(declared, room=with_glibc(declared, "9.99"))
    stages = Stages(tmp_path, keep_free=0)
    for image in declared.room:
        own = tuple(
            msgspec.structs.replace(i, python=python.minor if i.name == image.name else "3.0")
            for i in any_python.room
        )
        choice = rooms.choose_rooms(
            stages, DOCKER, msgspec.structs.replace(declared, room=own, compiled=()), python
        )
        assert choice.images[0].name == image.name and len(choice.images) == 2


def test_a_python_for_a_newer_c_library_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    declared = images.load(OURS)
    old = msgspec.structs.replace(declared, room=with_glibc(declared, "2.1"))
    stages = Stages(tmp_path, keep_free=0)
    python = interpreter.find()
    with pytest.raises(HostError) as caught:
        rooms.choose_rooms(stages, DOCKER, old, python)
    assert f"{python.executable} does not run in enough rooms" in str(caught.value)
    assert "has glibc 2.1" in caught.value.got and "uv python install" in caught.value.mend
    assert {output.name for output in stages.timings} == {"interpreter"}


ROOMS_OWN = RoomsOwn(minor="3.99")
OTHERS_OWN = RoomsOwn(minor="3.98")


def with_python(declared: images.Declaration, *names: str) -> images.Declaration:
    """Rooms of which those named have that Python of their own."""
    rooms = tuple(
        msgspec.structs.replace(image, python="3.99") if image.name in names else image
        for image in declared.room
    )
    return msgspec.structs.replace(declared, room=rooms)


def test_a_python_of_rooms_is_in_those_that_have_it_alone(tmp_path: Path) -> None:
    stages = Stages(tmp_path, keep_free=0)
    declared = with_python(images.load(OURS), "debian13")
    choice = rooms.choose_rooms(stages, DOCKER, declared, ROOMS_OWN, fewest=1)
    assert [image.name for image in choice.able] == ["debian13"] and choice.moved is None
    assert not stages.timings, "nothing is copied into a room"
    with pytest.raises(HostError) as caught:
        rooms.choose_rooms(stages, DOCKER, declared, ROOMS_OWN)
    assert "Python 3.99, which this machine has not, does not run in enough" in caught.value.what
    assert caught.value.expected == "2 rooms that have it of their own"
    assert "debian12 has Python 3.11" in caught.value.got


@pytest.mark.parametrize("kind", [RoomKind.SANDBOX, RoomKind.PLAIN])
def test_a_python_of_rooms_needs_an_engine(tmp_path: Path, kind: RoomKind) -> None:
    declared = with_python(images.load(OURS), "debian12", "debian13")
    with pytest.raises(HostError, match=r"no Python 3.99 on this machine: expected a container"):
        rooms.choose_rooms(Stages(tmp_path, keep_free=0), Engine(kind=kind), declared, ROOMS_OWN)


def for_ours(declared: images.Declaration, minor: str) -> images.Declaration:
    """Its first compiled Python is of that minor."""
    (first, *_) = declared.compiled
    return msgspec.structs.replace(
        declared, compiled=(msgspec.structs.replace(first, python=minor),)
    )


def test_a_room_for_which_a_python_is_compiled_is_none_of_the_two(tmp_path: Path) -> None:
    declared = with_python(images.load(OURS), "debian13", "debian-forky")
    compiled = for_ours(declared, "3.99")
    stages = Stages(tmp_path, keep_free=0)
    choice = rooms.choose_rooms(stages, DOCKER, compiled, ROOMS_OWN)
    assert [image.name for image in choice.images] == ["debian13", "debian-forky"]
    assert [image.name for image in choice.able] == ["debian13", "debian-forky", "debian11"]
    assert not stages.timings, "nothing is compiled before it is asked for"
    with pytest.raises(HostError, match="does not run in enough rooms"):
        rooms.choose_rooms(stages, DOCKER, for_ours(with_python(declared), "3.98"), OTHERS_OWN)
    other = rooms.choose_rooms(stages, DOCKER, for_ours(declared, "3.98"), ROOMS_OWN)
    assert "debian11" not in [image.name for image in other.able] and not other.compiled


@pytest.mark.parametrize(("room", "expected"), [("debian11", "compiled"), ("debian13", "moved")])
def test_the_python_that_is_compiled_for_a_room_goes_before_one_that_would_run_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str, expected: str
) -> None:
    declared = for_ours(images.load(OURS), "3.99")
    made = {n: Moved(path=tmp_path, key=n, glibc="2.17") for n in ("compiled", "moved")}
    choice = rooms.Choice(
        engine=DOCKER, python=ROOMS_OWN, moved=made["moved"], compiled=declared.compiled
    )
    image = images.named(declared, room)[0]
    put: list[Moved | None] = []

    def room_image(
        stages: Stages, engine: Engine, image: images.Image, moved: Moved | None, *rest: object
    ) -> Layer:
        put.append(moved)
        return Layer(id="1", tag="qualify/room:1", python="3.99.1")

    monkeypatch.setattr(rooms, "compile_python", lambda *rest: made["compiled"])
    monkeypatch.setattr(rooms.layers, "room_image", room_image)
    able = msgspec.structs.replace(choice, able=(image,))
    spec = rooms.room_of(Stages(tmp_path, keep_free=0), able, image, images.PLAIN, CLOSURE, (), ())
    assert put == [made[expected]] and spec.facts.python == "3.99.1"


def with_glibc(declared: images.Declaration, version: str) -> tuple[images.RoomImage, ...]:
    return tuple(msgspec.structs.replace(image, glibc=version) for image in declared.room)
