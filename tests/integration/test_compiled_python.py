"""Debian 11, and the Python that is compiled for it: whole, and near the floor of the wheels' tags.

What no newer room sees is a library that needs a newer C library than the tag of its wheel says.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_wheels import good
from broken_wheels.compiler import library

from qualify import images, layers
from qualify.compiled import compile_python
from qualify.engine import Engine
from qualify.images import Declaration, RoomImage
from qualify.process import Completed
from qualify.room import Room, RoomFacts, RoomSpec, open_room
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]  # compiled on the way
NEWER = "int pthread_create(); int add(int a, int b) { return a ? a + b : pthread_create(); }\n"
"""glibc 2.34 gave that name a version of its own when libpthread went into libc."""
LOAD = """
import ctypes, importlib.util, pathlib
place = pathlib.Path(importlib.util.find_spec("small").origin).parent
assert ctypes.CDLL(str(place / "_native.so")).add(40, 2) == 42
"""
TAGGED = "py3-none-manylinux_2_{}_x86_64"


def bare(engine: Engine, image: RoomImage, tag: str) -> RoomSpec:
    """A room of the image `tag`, without torch."""
    facts = RoomFacts(
        name=image.name,
        kind=engine.kind,
        os_id=image.os_id,
        os_version=image.os_version,
        glibc=image.glibc,
        image=tag,
        python="",
        torch="",
        kernel=platform.release(),
        isolation=(),
    )
    return RoomSpec(engine=engine, facts=facts, digest="0" * 64, hidden=(), packages=image.packages)


@pytest.fixture(scope="module")
def old(stages: Stages, declared: Declaration, docker: Engine) -> RoomSpec:
    """The room that has a compiled Python."""
    (each,) = declared.compiled
    image = images.named(declared, each.room)[0]
    moved = compile_python(stages, docker, image, each)
    with docker.open_client(layers.STEP_SECONDS) as client:
        base = layers.base_image(stages, client, image)
        made = layers.interpreter_image(stages, client, image, base, moved, each.python)
    assert made.python.startswith(f"{each.python}.")
    return bare(docker, image, made.id)


@pytest.fixture(scope="module")
def newer(stages: Stages, declared: Declaration, docker: Engine) -> RoomSpec:
    image = declared.room[0]
    with docker.open_client(layers.STEP_SECONDS) as client:
        return bare(docker, image, layers.base_image(stages, client, image).id)


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Iterator[Room]:
    """The room that the test is given by name, with a virtual environment in /tmp/venv."""
    spec: RoomSpec = request.getfixturevalue(request.param)
    with open_room(spec) as room:
        folder = "/opt/python/*/bin" if request.param == "old" else "/usr/bin"
        made = room.run(["sh", "-c", f"{folder}/python3 -m venv /tmp/venv"], timeout=120)
        assert made.ok, made.stderr
        yield room


def ask(room: Room, *words: str) -> Completed:
    return room.run(["/tmp/venv/bin/python", "-I", *words], timeout=120)


def install(room: Room, folder: Path, source: str, minor: int) -> Completed:
    """A wheel tagged for glibc 2.`minor`, with the library of `source` in it."""
    wheel = good.compiled(library(source))
    wheel.swap("WHEEL", TAGGED.format(28), TAGGED.format(minor))
    wheel.name = wheel.name.replace(TAGGED.format(28), TAGGED.format(minor))
    path = room.put(wheel.write(folder), "wheels")
    words = ["install", "--no-index", "--no-deps", "--no-cache-dir", "--force-reinstall", path]
    return ask(room, "-m", "pip", *words)


@pytest.mark.parametrize("opened", ["old"], indirect=True)
def test_it_is_whole_and_links_the_rooms_libraries(opened: Room) -> None:
    done = ask(
        opened,
        "-c",
        f"{layers.PROOF}; print(ssl.OPENSSL_VERSION, *ssl.get_default_verify_paths()[:1])",
    )
    assert done.ok, done.stderr
    assert done.stdout.startswith("OpenSSL 1.1.1")
    assert ask(opened, "-m", "pip", "check").ok
    unlinked = "ldd /opt/python/*/lib/python*/lib-dynload/*.so | grep 'not found'"
    assert opened.run(["sh", "-c", unlinked], timeout=120).stdout == ""


@pytest.mark.parametrize(("opened", "runs"), [("old", False), ("newer", True)], indirect=["opened"])
def test_a_library_that_needs_a_newer_c_library_than_its_tag_says(
    opened: Room, runs: bool, tmp_path: Path
) -> None:
    assert install(opened, tmp_path, "int add(int a, int b) { return a + b; }\n", 28).ok
    twin = ask(opened, "-c", LOAD)
    assert twin.ok, twin.stderr
    assert install(opened, tmp_path, NEWER, 28).ok, "an installer believes the tag"
    loaded = ask(opened, "-c", LOAD)
    assert loaded.ok is runs, loaded.stderr
    assert runs or "version `GLIBC_2.34' not found" in loaded.stderr
    honest = install(opened, tmp_path, NEWER, 34)
    assert honest.ok is runs
    assert runs or "is not a supported wheel on this platform" in honest.stderr
