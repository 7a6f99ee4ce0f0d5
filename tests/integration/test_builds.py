"""The build path on three small real packages, and interpreters moved into real images."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import pytest
import toy_packages
from engines import engine_or_skip

from qualify import build, doctor, layers
from qualify.build import PACKAGES, Package
from qualify.container import OWNER_LABEL
from qualify.engine import Engine
from qualify.errors import BuildError, HostError
from qualify.images import Declaration
from qualify.interpreter import find, transplant
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]  # images are made on the way
NO_TORCH = PACKAGES[:2]


@pytest.fixture(scope="session", params=["docker", "sandbox"])
def maker(request: pytest.FixtureRequest) -> Engine:
    """Where wheels are built: in the build image, and on this machine."""
    return engine_or_skip(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    toy_packages.write(tmp_path / "tree")
    return tmp_path / "tree"


def made(
    stages: Stages, fresh: Stages, tree: Path, maker: Engine, declared: Declaration
) -> dict[str, build.Wheel]:
    """Build those that need no torch; images come from `stages`, outputs go to `fresh`."""
    tools = build.toolchain(stages, maker, declared.build)
    python = find()
    wheels = [build.build_wheel(fresh, tree, p, tools, python, None) for p in NO_TORCH]
    return {wheel.name: wheel for wheel in wheels}


def test_wheels_are_built_once_and_again_when_their_sources_change(
    stages: Stages, tree: Path, tmp_path: Path, maker: Engine, declared: Declaration
) -> None:
    cache = tmp_path / "cache"
    first = made(stages, Stages(cache, keep_free=0), tree, maker, declared)
    assert set(first) == {"emu-driver-shim", "emu-runtime"}
    for wheel in first.values():
        assert "-py3-none-manylinux" in wheel.path.name
    second = Stages(cache, keep_free=0)
    assert made(stages, second, tree, maker, declared) == first
    assert all(output.reused for output in second.timings)
    source = tree / "runtime_pkg/src/answer.cpp"
    source.write_text(source.read_text().replace("ANSWER", "ANSWER + 1"))
    third = Stages(cache, keep_free=0)
    changed = made(stages, third, tree, maker, declared)
    ran = {output.name for output in third.timings if not output.reused}
    assert ran == {"build-emu-runtime", "repair-emu-runtime"}
    assert changed["emu-runtime"].sha256 != first["emu-runtime"].sha256


def test_the_same_sources_give_the_same_bytes(
    stages: Stages, tree: Path, tmp_path: Path, maker: Engine, declared: Declaration
) -> None:
    moved = tmp_path / "a/longer/name/of/the/checkout"
    shutil.copytree(tree, moved)
    one = made(stages, Stages(tmp_path / "one", keep_free=0), tree, maker, declared)
    two = made(stages, Stages(tmp_path / "number-two", keep_free=0), moved, maker, declared)
    assert {w.name: w.sha256 for w in one.values()} == {w.name: w.sha256 for w in two.values()}
    assert str(tmp_path).encode() not in one["emu-runtime"].path.read_bytes()


def test_a_build_that_fails_shows_the_compilers_words(
    stages: Stages, tree: Path, tmp_path: Path, maker: Engine, declared: Declaration
) -> None:
    (tree / "driver_shim/src/answer.cpp").write_text("int broken( { return 0; }\n")
    fresh = Stages(tmp_path / "cache", keep_free=0)
    with pytest.raises(BuildError, match=r"emu-driver-shim could not be built(.|\n)*answer.cpp"):
        made(stages, fresh, tree, maker, declared)
    assert not list((tmp_path / "cache/build").glob("*/")), "the sources are removed"


def test_a_wheel_with_a_python_tag_has_its_python_in_the_key(
    stages: Stages, tmp_path: Path, declared: Declaration
) -> None:
    tree = tmp_path / "tree"
    toy_packages.write(tree, api="")
    maker = engine_or_skip("sandbox")
    tools = build.toolchain(stages, maker, declared.build)
    package: Package = PACKAGES[0]
    fresh = Stages(tmp_path / "cache", keep_free=0)
    python = find()
    wheel = build.build_wheel(fresh, tree, package, tools, python, None)
    assert f"cp{python.minor.replace('.', '')}" in wheel.path.name
    entry = fresh.timings[0].path.with_suffix(".json").read_text()
    assert f'"python":"{python.version}"' in entry


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("executable", [sys.executable, "/usr/bin/python3"])
def test_a_moved_interpreter_runs_in_each_image(
    stages: Stages, declared: Declaration, docker: Engine, number: int, executable: str
) -> None:
    image, python = declared.room[number], find(Path(executable))
    if image.python == python.minor:
        pytest.skip(f"{image.name} has this Python of its own")
    moved = transplant(stages, python)
    with docker.open_client(layers.STEP_SECONDS) as client:
        base = layers.base_image(stages, client, image)
        layer = layers.interpreter_image(stages, client, image, base, moved, python.minor)
        assert layer.python == python.version
        assert not client.images.get(layer.tag).labels.get(OWNER_LABEL), "its steps are swept"
        with layers.step(client, layer.tag) as box:
            program = f"{layers.PROOF}; venv.create('/tmp/v', symlinks=True, with_pip=True)"
            layers.shell(box, [f"/opt/python/{python.minor}/bin/python3", "-I", "-c", program])


def test_images_that_cannot_be_made_are_refused_before_anything_is_built(
    docker: Engine, declared: Declaration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(tmp_path))
    unmade = msgspec.structs.replace(declared.build, packages=("never-made",))
    with pytest.raises(HostError, match=r"^mmdebstrap is not installed\. apt install mmdebstrap"):
        doctor.demand(docker, msgspec.structs.replace(declared, build=unmade))
    upstream = f"debian@sha256:{'0' * 64}"
    named = msgspec.structs.replace(
        declared,
        build=msgspec.structs.replace(unmade, upstream=upstream),
        room=tuple(msgspec.structs.replace(i, upstream=upstream) for i in declared.room),
    )
    doctor.demand(docker, named)


def test_an_image_without_a_name_is_removed_when_the_next_is_made(
    docker: Engine,
    declared: Declaration,
    stages: Stages,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that is killed while the engine writes an image leaves one that nothing finds again."""
    monkeypatch.setattr(layers, "NAMELESS_SECONDS", -1)
    with docker.open_client(layers.STEP_SECONDS) as client:
        base = layers.base_image(stages, client, declared.room[0])
        with layers.step(client, base.tag) as box:
            left = box.commit(changes=[f'LABEL {layers.USED_LABEL}="qualify/never:named"'])
        assert not left.tags
        layers._bound(Stages(tmp_path, keep_free=0), client, keep=base.tag)
        assert left.id not in [image["Id"] for image in client.api.images()]
        assert client.images.get(base.tag)
