"""The published build's configuration says what the pipeline does."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qualify import cibuildwheel
from qualify.backend import EPOCH
from qualify.build import Wheel
from qualify.engine import Engine, RoomKind
from qualify.errors import BuildError, HostError
from qualify.repair import repair_words

TREE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def configuration() -> dict[str, Any]:
    text = (TREE / cibuildwheel.CONFIGURATION).read_bytes()
    return dict(msgspec.toml.decode(text)["tool"]["cibuildwheel"])


def test_the_repair_is_the_pipelines(configuration: dict[str, Any]) -> None:
    words = shlex.split(configuration["repair-wheel-command"])
    assert words == ["python", *repair_words("{dest_dir}"), "{wheel}"]


def test_the_flags_are_the_pipelines(configuration: dict[str, Any]) -> None:
    maps = "-ffile-prefix-map=/project=. -ffile-prefix-map=/torch=torch"
    assert configuration["environment"] == {
        "CFLAGS": maps,
        "CXXFLAGS": maps,
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "CMAKE_GENERATOR": "Ninja",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }


def test_nothing_is_tested_in_the_build_container(configuration: dict[str, Any]) -> None:
    assert configuration["test-command"] == ""


def test_without_an_engine_it_is_refused() -> None:
    engine = Engine(kind=RoomKind.SANDBOX, note="no engine answers")
    with pytest.raises(HostError, match="docker or podman, running"):
        cibuildwheel.ready(engine)


@pytest.mark.parametrize("folder", ["a b", "a;b", "a'b", "a: b", 'a"b'])
def test_a_cache_may_have_any_name(folder: str) -> None:
    helpers = pytest.importorskip("cibuildwheel.util.helpers")
    option = f"--volume=/{folder}/torch:/torch:ro"
    word = cibuildwheel.container_engine(Engine(kind=RoomKind.DOCKER), ["--network=none", option])
    read = helpers.parse_key_value_string(word, ["name"], ["create_args", "disable_host_mount"])
    assert read["create_args"] == ["--network=none", option]
    assert (read["name"], read["disable_host_mount"]) == (["docker"], ["true"])


def test_metadata_that_an_index_refuses_is_told(tmp_path: Path) -> None:
    pytest.importorskip("twine")
    path = tmp_path / "small-1.0-py3-none-any.whl"
    path.write_bytes(b"no archive")
    wheel = Wheel(path=path, sha256="", name="small", version="1.0")
    with pytest.raises(BuildError, match="an index would not take"):
        cibuildwheel.check_metadata((wheel,))
