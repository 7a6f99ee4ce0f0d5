"""Two builds of a real package in two surroundings: whatever leaks into the bytes is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_packages
from engines import engine_or_skip

from qualify import build
from qualify.build import PACKAGES
from qualify.engine import Engine
from qualify.images import Declaration
from qualify.interpreter import find
from qualify.rebuild import Rebuilt, rebuild_one
from qualify.stage import Stages

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]  # images are made on the way
PACKAGE = PACKAGES[0]

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


def rebuilt(
    stages: Stages, maker: Engine, declared: Declaration, tmp_path: Path, leaks: dict[str, str]
) -> Rebuilt:
    """`leaks`: file name in the package to a word of the shell that is put into it."""
    tree = tmp_path / "tree"
    toy_packages.write(tree)
    lines = [
        f"""execute_process(COMMAND sh -c [=[printf %s "{word}"]=] OUTPUT_VARIABLE text)
file(WRITE "${{CMAKE_BINARY_DIR}}/{name}.txt" "${{text}}")
install(FILES "${{CMAKE_BINARY_DIR}}/{name}.txt" DESTINATION emu_driver_shim)
"""
        for name, word in leaks.items()
        if "CMAKE_SOURCE" not in word
    ]
    lines += [
        f"""file(WRITE "${{CMAKE_BINARY_DIR}}/{name}.txt" "{word}")
install(FILES "${{CMAKE_BINARY_DIR}}/{name}.txt" DESTINATION emu_driver_shim)
"""
        for name, word in leaks.items()
        if "CMAKE_SOURCE" in word
    ]
    with (tree / "driver_shim/CMakeLists.txt").open("a") as file:
        file.writelines(lines)
    tools = build.toolchain(stages, maker, declared.build)
    fresh = Stages(tmp_path / "cache", keep_free=0)
    first = build.build_wheel(fresh, tree, PACKAGE, tools, find(), None)
    return rebuild_one(fresh, tree, PACKAGE, tools, find(), None, first)


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
