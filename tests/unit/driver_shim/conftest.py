"""The engine, built once for all test processes from the same build folder as the native tests."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine

from qualify import process

TREE = Path(__file__).parents[3]
BUILD = TREE / "build" / "native" / "driver_shim"
TARGETS = ("machine_c", "emu-as", "emu-objdump", "emud", "emudrv")


def must(*argv: str) -> None:
    done = process.run(argv, timeout=900)
    assert done.ok, f"{' '.join(argv)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="session")
def native() -> Path:
    """The build folder with TARGETS up to date."""
    cmake = shutil.which("cmake")
    assert cmake is not None, "expected cmake (a dependency of qualify) on PATH"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (BUILD / "build.ninja").exists():
            source = str(TREE / "driver_shim")
            must(cmake, "-S", source, "-B", str(BUILD), "-G", "Ninja", "-DEMU_TESTS=ON")
        must(cmake, "--build", str(BUILD), "--parallel", "2", "--target", *TARGETS)
    return BUILD


@pytest.fixture(scope="session")
def package(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with emu_driver_shim as it is installed."""
    site = tmp_path_factory.mktemp("site")
    target = site / "emu_driver_shim"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TREE / "driver_shim" / "python" / "emu_driver_shim", target, ignore=ignore)
    (target / "include").symlink_to(TREE / "driver_shim" / "include")
    for name in ("lib", "bin"):
        (target / name).symlink_to(native / "emu_driver_shim" / name)
    return site


@pytest.fixture(scope="session")
def machine(native: Path) -> Iterator[Machine]:
    engine = Machine(native / "tests" / "machine" / "libmachine_c.so")
    yield engine
    engine.close()
