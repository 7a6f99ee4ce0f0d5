"""Two builds of a real package in two surroundings: whatever leaks into the bytes is found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import toy_packages
from engines import engine_or_skip

from qualify import build, cibuildwheel, owner, repair
from qualify.build import PACKAGES
from qualify.container import OWNER_LABEL
from qualify.engine import Engine
from qualify.images import Declaration
from qualify.interpreter import find
from qualify.owner import Owner
from qualify.rebuild import Rebuilt, rebuild_one
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]  # images are made on the way
PACKAGE = PACKAGES[0]
TREE = Path(__file__).parents[2]

LEAKS = {
    "folder": "${CMAKE_SOURCE_DIR}",
    "time": "$(date +%s%N)",
    "umask": "$(umask)",
    "locale": "$LC_ALL",
    "time-zone": "$(date +%Z)",
    "home": "$HOME",
    "jobs": "$CMAKE_BUILD_PARALLEL_LEVEL",
    "compiler-cache": "$CCACHE_BASEDIR",
}
CONTAINER_LEAKS = {"user": "$(id -u)", "host": "$(hostname)"}
GOOD = {"epoch": "$SOURCE_DATE_EPOCH", "date": "$(date -u -d @0)"}


@pytest.fixture(scope="session", params=["docker", "sandbox"])
def maker(request: pytest.FixtureRequest) -> Engine:
    return engine_or_skip(request.param)


def written(tree: Path, leaks: dict[str, str]) -> Path:
    """A package with a file for each leak: its name to the shell's word that is put into it."""
    toy_packages.write(tree)
    with (tree / "driver_shim/CMakeLists.txt").open("a") as file:
        for name, word in leaks.items():
            put = f'file(WRITE "${{CMAKE_BINARY_DIR}}/{name}.txt" "{word}")'
            if "${CMAKE_" not in word:
                run = f"""sh -c [=[printf %s "{word}" > {name}.txt]=]"""
                put = f'execute_process(COMMAND {run} WORKING_DIRECTORY "${{CMAKE_BINARY_DIR}}")'
            where = f'"${{CMAKE_BINARY_DIR}}/{name}.txt" DESTINATION emu_driver_shim'
            file.write(f"{put}\ninstall(FILES {where})\n")
    return tree


def rebuilt(
    stages: Stages, maker: Engine, declared: Declaration, tmp_path: Path, leaks: dict[str, str]
) -> Rebuilt:
    tree = written(tmp_path / "tree", leaks)
    tools = build.toolchain(stages, maker, declared.build)
    fresh = Stages(tmp_path / "cache", keep_free=0)
    first = build.build_wheel(fresh, tree, PACKAGE, tools, find(), None)
    found = rebuild_one(fresh, tree, PACKAGE, tools, find(), None, first)
    assert rebuild_one(fresh, tree, PACKAGE, tools, find(), None, first) == found
    assert all(output.reused for output in fresh.timings[-2:]), "nothing changed, nothing is built"
    return found


def docker_left(engine: Engine, whose: Owner) -> list[str]:
    """The containers of one process: a test beside this one has its own."""
    label = {"label": f"{OWNER_LABEL}={whose.text()}"}
    with engine.open_client() as client:
        found = client.containers.list(all=True, filters=label, ignore_removed=True)
        return [container.name for container in found]


@pytest.mark.skipif(find_spec("cibuildwheel") is None, reason="needs the extra cibuildwheel")
@pytest.mark.parametrize("leaks", [{}, {"compiler-cache": LEAKS["compiler-cache"]}])
def test_the_published_build_is_compared_too(
    stages: Stages, docker: Engine, declared: Declaration, tmp_path: Path, leaks: dict[str, str]
) -> None:
    tree = written(tmp_path / "tree", leaks)
    (tree / "containers").mkdir()
    shutil.copy(TREE / cibuildwheel.CONFIGURATION, tree / "containers")
    tools = build.toolchain(stages, docker, declared.build)
    fresh = Stages(tmp_path / "cache", keep_free=0)
    first = build.build_wheel(fresh, tree, PACKAGE, tools, find(), None)
    found = cibuildwheel.publish_one(
        fresh, tree, PACKAGE, tools, cibuildwheel.ready(docker), None, first
    )
    told = {Path(each.member).stem for each in found.differences}
    assert told == ({*leaks, "RECORD"} if leaks else set())
    assert not docker_left(docker, owner.current()), "cibuildwheel's container is removed"


STOPPED = """
import sys
from pathlib import Path
from qualify import build, cibuildwheel, engine, images
from qualify.build import PACKAGES, Wheel
from qualify.stage import Stages
from qualify.stopping import stopping
tree, cache, made = map(Path, sys.argv[1:])
found = engine.choose("docker")
declared = images.load(Path("containers/images.toml"))
tools = build.toolchain(Stages(made), found, declared.build)
first = Wheel(path=tree, sha256="", name=PACKAGES[0].name, version="0")
with stopping():
    cibuildwheel.publish_one(
        Stages(cache, keep_free=0), tree, PACKAGES[0], tools, cibuildwheel.ready(found), None, first
    )
"""


@pytest.mark.skipif(find_spec("cibuildwheel") is None, reason="needs the extra cibuildwheel")
def test_a_published_build_that_is_stopped_leaves_nothing(
    stages: Stages, docker: Engine, declared: Declaration, tmp_path: Path
) -> None:
    build.toolchain(stages, docker, declared.build)
    tree = written(tmp_path / "tree", {"slow": "$(sleep 600)"})
    (tree / "containers").mkdir()
    shutil.copy(TREE / cibuildwheel.CONFIGURATION, tree / "containers")
    (tmp_path / "temporary").mkdir()
    words = [sys.executable, "-c", STOPPED, tree, tmp_path / "a cache", stages.root]
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(words, cwd=TREE, env=env, stderr=subprocess.DEVNULL) as running:
        builder = owner.of(running.pid)
        end = time.monotonic() + 120
        while not docker_left(docker, builder):
            assert running.poll() is None and time.monotonic() < end
            time.sleep(0.1)
        time.sleep(2)  # somewhere in the build
        running.send_signal(signal.SIGINT)
    assert running.returncode != 0
    assert not docker_left(docker, builder)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list((tmp_path / "a cache" / "stages").glob("*/.*.tmp")) == []


def test_each_thing_that_leaks_into_the_bytes_is_found(
    stages: Stages, maker: Engine, declared: Declaration, tmp_path: Path
) -> None:
    leaks = LEAKS | (CONTAINER_LEAKS if maker.has_images else {})
    found = rebuilt(stages, maker, declared, tmp_path, leaks | GOOD)
    assert found.sha256 != found.again
    told = {Path(each.member).stem for each in found.differences}
    assert told == {*leaks, "RECORD"}


def test_what_does_not_leak_is_the_same(
    stages: Stages, maker: Engine, declared: Declaration, tmp_path: Path
) -> None:
    found = rebuilt(stages, maker, declared, tmp_path, GOOD)
    assert found.differences == () and found.sha256 == found.again
    assert not list((tmp_path / "cache/build").rglob("*.cpp")), "what was built from is removed"


REPAIR = """
import os, sys, zipfile
from pathlib import Path
from auditwheel.main import main
sys.argv[1:1] = ["repair"]
assert not main()
(wheel,) = Path(sys.argv[sys.argv.index("-w") + 1]).glob("*.whl")
with zipfile.ZipFile(wheel, "a") as archive:
    archive.comment = f"{os.umask(0)} {os.environ.get('TZ')}".encode()
"""


def test_what_leaks_into_the_bytes_in_the_repair_is_found(
    stages: Stages,
    maker: Engine,
    declared: Declaration,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Built alike, and repaired by something that writes down where it ran."""
    usual = repair.repair_words

    def leaking(folder: str) -> list[str]:
        return ["-c", REPAIR, *usual(folder)[3:]]

    monkeypatch.setattr(repair, "repair_words", leaking)
    found = rebuilt(stages, maker, declared, tmp_path, GOOD)
    assert found.sha256 != found.again
