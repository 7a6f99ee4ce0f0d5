"""What goes into a build's key: its own sources, the interfaces it reads, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qualify.build import PACKAGES, Package, laid_out, sources
from qualify.content import digest_files
from qualify.errors import ChangedError, InputError
from qualify.stage import Stages

DRIVER, RUNTIME, PLUGIN = PACKAGES


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in PACKAGES:
        for name in ("pyproject.toml", "src/a.cpp", "include/emu/a.h", "tests/test_a.cpp"):
            path = tmp_path / package.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{package.name} {name}\n")
    (tmp_path / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "-A"], check=True)
    return tmp_path


def digests(tree: Path) -> dict[str, str]:
    return {p.name: digest_files(tree, sources(tree, p)) for p in PACKAGES}


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ("framework_plugin/src/a.cpp", {"torch-emu"}),
        ("runtime_pkg/src/a.cpp", {"emu-runtime"}),
        ("runtime_pkg/include/emu/a.h", {"emu-runtime", "torch-emu"}),
        ("driver_shim/src/a.cpp", {"emu-driver-shim"}),
        ("driver_shim/include/emu/a.h", {"emu-driver-shim", "emu-runtime"}),
        ("framework_plugin/src/new_and_not_yet_tracked.cpp", {"torch-emu"}),
        ("framework_plugin/tests/test_a.cpp", set()),
        ("framework_plugin/build/left.o", set()),
        ("README.md", set()),
    ],
)
def test_a_change_rebuilds_what_depends_on_it(tree: Path, changed: str, rebuilt: set[str]) -> None:
    before = digests(tree)
    (tree / changed).parent.mkdir(exist_ok=True)
    (tree / changed).write_text("changed\n")
    after = digests(tree)
    assert {name for name in before if before[name] != after[name]} == rebuilt


def test_a_deleted_source_is_a_change(tree: Path) -> None:
    before = digests(tree)
    (tree / "framework_plugin/src/a.cpp").unlink()
    assert digests(tree)["torch-emu"] != before["torch-emu"]


def test_an_unpacked_archive_of_the_sources_works_too(tree: Path) -> None:
    before = sources(tree, PLUGIN)
    subprocess.run(["rm", "-r", str(tree / ".git")], check=True)
    assert sources(tree, PLUGIN) == before


def test_a_folder_that_is_no_checkout_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no sources of x: expected y/pyproject.toml"):
        sources(tmp_path, Package(name="x", folder="y"))


def test_sources_that_change_while_they_are_taken_are_not_built(tree: Path) -> None:
    stages, names = Stages(tree / "cache"), sources(tree, RUNTIME)
    digest = digest_files(tree, names)
    with laid_out(stages, tree, RUNTIME, names, digest) as copy:
        assert digest_files(copy, names) == digest
    (tree / "driver_shim/include/emu/a.h").write_text("changed\n")
    with (
        pytest.raises(ChangedError, match="the sources of emu-runtime changed"),
        laid_out(stages, tree, RUNTIME, names, digest),
    ):
        pytest.fail("it would have been built")
    assert not list((tree / "cache/build").glob("*/"))
