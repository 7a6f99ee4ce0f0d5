"""A Python that is compiled for a room: from what, when again, and what is said where it fails.

mmdebstrap and the container stand aside; `tests/integration/test_compiled_python.py` has real ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qualify import compiled, images, layers
from qualify.backend import Toolchain
from qualify.engine import Engine, RoomKind
from qualify.errors import HostError, RoomError
from qualify.images import Compiled, Image, RoomImage
from qualify.layers import Layer
from qualify.stage import Stages

OURS = Path(__file__).parents[2] / "containers" / "images.toml"
DOCKER = Engine(kind=RoomKind.DOCKER, endpoint="unix:///nowhere")
BOOTSTRAP = """#!/bin/sh
for word; do
  case $word in
    "--extract-hook=copy-out /source "*) folder=${word##* } ;;
  esac
done
echo "$@" >> %(said)s
%(then)s
"""
GOOD = """mkdir $folder/source && echo it > $folder/source/python3.11_3.11.2.orig.tar.gz"""


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Stages]:
    made = Stages(tmp_path / "cache", keep_free=0)
    yield made
    made.close()


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was compiled: the image's packages, the volumes and the program of each build."""
    bootstrap(tmp_path, monkeypatch, GOOD)
    done: list[dict[str, Any]] = []

    def base(stages: Stages, client: object, image: Image) -> Layer:
        done.append({"image": image})
        return Layer(id="1", tag=f"qualify/{image.name}:1", python="3.9.2")

    def run(
        tools: Toolchain,
        words: list[str],
        environment: Mapping[str, str],
        volumes: Mapping[Path, tuple[str, str]],
        log: Path,
        **rest: object,
    ) -> bool:
        done[-1] |= {"tools": tools, "program": words[-1], "volumes": dict(volumes)}
        log.write_text("so it was said\n")
        (log.parent / "bin").mkdir()
        return "REFUSE" not in tools.image

    monkeypatch.setattr(Engine, "open_client", lambda *rest: contextlib.nullcontext())
    monkeypatch.setattr(layers, "base_image", base)
    monkeypatch.setattr(compiled, "run_in_image", run)
    return done


def bootstrap(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> Path:
    """An mmdebstrap that keeps its words in the file that is returned."""
    program, said = folder / "bin" / "mmdebstrap", folder / "said"
    program.parent.mkdir(exist_ok=True)
    program.write_text(BOOTSTRAP % {"said": said, "then": then})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return said


def ours() -> tuple[RoomImage, Compiled]:
    declared = images.load(OURS)
    each = declared.compiled[0]
    return images.named(declared, each.room)[0], each


def test_it_is_compiled_in_the_rooms_own_system_for_the_place_where_it_is_put(
    stages: Stages, built: list[dict[str, Any]], tmp_path: Path
) -> None:
    image, each = ours()
    moved = compiled.compile_python(stages, DOCKER, image, each)
    (build,) = built
    assert build["image"].suite == image.suite
    assert set(build["image"].packages) == {*image.packages, *each.packages}
    places = {there: mode for there, mode in build["volumes"].values()}
    assert places == {"/source": "ro", f"/opt/python/{each.python}": "rw"}
    assert f"--prefix=/opt/python/{each.python} " in build["program"]
    assert f"/opt/python/{each.python}/bin/python{each.python} -I -c" in build["program"]
    assert [path.name for path in moved.path.iterdir()] == ["bin"], "no log goes into the room"
    assert moved.glibc == image.glibc
    words = (tmp_path / "said").read_text()
    assert f"--tar-only {each.source} " in words
    assert words.split()[-2:] == [each.suite, "/dev/null"]


def test_it_is_made_again_where_what_it_is_made_of_changed(
    stages: Stages, built: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, each = ours()
    first = compiled.compile_python(stages, DOCKER, image, each)
    assert compiled.compile_python(stages, DOCKER, image, each) == first and len(built) == 1
    more = msgspec.structs.replace(each, packages=(*each.packages, "tk-dev"))
    other = msgspec.structs.replace(image, packages=(*image.packages, "libtk8.6"))
    keys = {
        first.key,
        compiled.compile_python(stages, DOCKER, image, more).key,
        compiled.compile_python(stages, DOCKER, other, each).key,
    }
    bootstrap(tmp_path, monkeypatch, GOOD.replace("echo it", "echo another"))
    elsewhere = msgspec.structs.replace(each, suite="trixie")
    keys.add(compiled.compile_python(stages, DOCKER, image, elsewhere).key)
    monkeypatch.setattr(compiled, "PROOF", "import dbm.gnu")
    keys.add(compiled.compile_python(stages, DOCKER, image, each).key)
    assert len(keys) == 5 == len(built)


@pytest.mark.parametrize(
    "then",
    [
        f"{GOOD}; echo E: no such package >&2; exit 1",
        "echo E: no such package >&2",
        f"{GOOD}; touch $folder/source/b.orig.tar.gz; echo E: no such package >&2",
    ],
)
def test_a_source_that_cannot_be_had_is_told(
    stages: Stages,
    built: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    then: str,
) -> None:
    bootstrap(tmp_path, monkeypatch, then)
    with pytest.raises(HostError, match=r"python3.11 \(bookworm\) could not be had.*no such pack"):
        compiled.compile_python(stages, DOCKER, *ours())
    assert not built


def test_what_the_build_said_is_told_and_nothing_is_kept(
    stages: Stages, built: list[dict[str, Any]]
) -> None:
    image, each = ours()
    refused = msgspec.structs.replace(image, name="REFUSE")
    with pytest.raises(RoomError, match=r"Python 3.11 could not be compiled(.|\n)*so it was said"):
        compiled.compile_python(stages, DOCKER, refused, each)
    assert not list((stages.root / "stages" / "compiled-python").glob("*/bin"))
