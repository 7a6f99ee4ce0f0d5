"""The driver shim and the runtime as installed wheels, built once for a state of their sources.

`emu` is the installed package in this process; `script` runs a program in a process of its own, for
what ends, forks or breaks a process.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qualify.process import Completed, run

TREE = Path(__file__).parents[3]
SOURCES = (TREE / "driver_shim", TREE / "runtime_pkg")
BUILD_SECONDS = 1200


def _digest() -> str:
    """Of all source files; what a build leaves in `build/` is not one."""
    state = hashlib.sha256(sys.version.encode())
    for folder in SOURCES:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and parts[0] != "build" and "__pycache__" not in parts:
                state.update(f"{path}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _install(target: Path) -> None:
    """Wheels of both, then an install beside `target` that takes its place at once."""
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    wheels = partial / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, *SOURCES]
    done = run(build, env=environment, timeout=BUILD_SECONDS)
    assert done.ok, done.stdout[-4000:] + done.stderr[-4000:]
    install = [*pip, "install", "--no-deps", "--prefix", partial, *wheels.glob("*.whl")]
    done = run(install, timeout=BUILD_SECONDS)
    assert done.ok, done.stderr[-4000:]
    partial.rename(target)


@pytest.fixture(scope="session")
def site() -> Path:
    """The site-packages folder of a prefix with the two packages installed."""
    root = TREE / ".cache" / "device-stack"
    root.mkdir(parents=True, exist_ok=True)
    target = root / _digest()
    with (root / "lock").open("w") as lock:  # the workers of one run, and other runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            for old in root.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            _install(target)
    (packages,) = target.glob("lib/python*/site-packages")
    return packages


@pytest.fixture(scope="session")
def emu(site: Path) -> Any:
    """The installed emu_runtime, for this process.

    Unit tests may have imported the source tree's here: those modules stay theirs.
    """
    for name in list(sys.modules):
        if name.partition(".")[0] in ("emu_runtime", "emu_driver_shim"):
            del sys.modules[name]
    sys.path.insert(0, str(site))
    package = importlib.import_module("emu_runtime")
    assert Path(str(package.__file__)).is_relative_to(site)
    importlib.import_module("emu_runtime.errors")
    return package


@pytest.fixture
def device(emu: Any) -> Iterator[Any]:
    """Device 0 with a context that no earlier test has used, and nothing left in it after."""
    device = emu.Device(0)
    device.reset()
    yield device
    device.reset()


Script = Callable[..., Completed]


@pytest.fixture
def script(site: Path, tmp_path: Path) -> Script:
    """`script(text, **environment)` runs Python text with the installed packages."""

    def start(text: str, *, timeout: float = 60, **environment: str) -> Completed:
        clean = {"PATH": os.defpath, "PYTHONPATH": str(site), **environment}
        return run([sys.executable, "-c", text], env=clean, cwd=tmp_path, timeout=timeout)

    return start
