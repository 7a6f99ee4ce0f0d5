"""A neighbouring release is the source here with numbers moved, wherever they are written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from qualify.build import PACKAGES, Package, sources
from qualify.compat import Neighbour, read_compat
from qualify.errors import BuildError
from qualify.neighbours import Move

TREE = Path(__file__).parents[2]
BEFORE, AFTER = read_compat(TREE / "matrix" / "compat.toml", "0.1.0").neighbours


def moved(folder: Path, package: Package, neighbour: Neighbour) -> dict[str, tuple[str, str]]:
    """Each file that the move changes or adds, before and after."""
    names = sources(TREE, package)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / name, folder / name)
    Move(version="0.1.0", neighbour=neighbour).apply(folder, package)
    changed = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        before = (TREE / name).read_bytes() if name in names else b""
        if path.is_file() and path.read_bytes() != before:
            changed[name] = before.decode(), path.read_text()
    return changed


@pytest.mark.parametrize("neighbour", [BEFORE, AFTER], ids=["before", "after"])
@pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])
def test_the_version_is_moved_everywhere(
    tmp_path: Path, package: Package, neighbour: Neighbour
) -> None:
    changed = moved(tmp_path, package, neighbour)
    for name in sources(TREE, package):
        text = (tmp_path / name).read_bytes().decode(errors="replace")
        assert not re.search(r"(?<![\d.])0\.1\.0(?![\d.])", text), name
    project = changed[f"{package.folder}/pyproject.toml"][1]
    assert f'version = "{neighbour.version}"' in project
    for needed in re.findall(r'"(emu-[a-z-]+)~=([\d.]+)"', project):
        assert needed[1] == neighbour.version


def test_the_interface_numbers_are_moved(tmp_path: Path) -> None:
    driver = moved(tmp_path / "d", PACKAGES[0], AFTER)
    assert "INTERFACE_MINOR 3\n" in driver["driver_shim/include/emu/driver.h"][1]
    assert '"1.3": [' in driver["driver_shim/cmake/compatibility.json.in"][1]
    runtime = moved(tmp_path / "r", PACKAGES[1], BEFORE)
    assert "INTERFACE_MINOR 1\n" in runtime["runtime_pkg/include/emu/runtime.h"][1]
    assert "\nMINOR = 1\n" in runtime["runtime_pkg/python/emu_runtime/interface.py"][1]
    assert "INTERFACE_MINOR 1\n" in runtime["driver_shim/include/emu/driver.h"][1]


def test_two_releases_differ_in_their_files(tmp_path: Path) -> None:
    before = moved(tmp_path / "b", PACKAGES[2], BEFORE)
    after = moved(tmp_path / "a", PACKAGES[2], AFTER)
    assert "framework_plugin/python/torch_emu/of_0_0_9.py" in before
    assert set(before) ^ set(after) == {
        "framework_plugin/python/torch_emu/of_0_0_9.py",
        "framework_plugin/python/torch_emu/of_0_2_0.py",
    }


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("driver_shim/pyproject.toml", 'version = "0.1.0"'),
        ("driver_shim/include/emu/driver.h", "#define EMU_DRIVER_INTERFACE_MINOR 2"),
        ("driver_shim/cmake/compatibility.json.in", '"adds"'),
    ],
)
def test_a_number_that_is_not_where_it_was_is_told(tmp_path: Path, name: str, old: str) -> None:
    for source in sources(TREE, PACKAGES[0]):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / source, tmp_path / source)
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, "gone"))
    with pytest.raises(BuildError, match=rf"{Path(name).name} has nothing to move"):
        Move(version="0.1.0", neighbour=AFTER).apply(tmp_path, PACKAGES[0])
