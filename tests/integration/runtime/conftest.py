"""`emu` is the installed package in this process; `script` runs a program in a process of its own,
for what ends, forks or breaks a process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from device_stack import clean_environment, installed

from qualify.pipeline import Prepared
from qualify.process import Completed, run


@pytest.fixture(scope="session")
def site(prepared: Prepared) -> Path:
    """The site-packages folder that holds the two installed packages."""
    return installed([wheel.path for wheel in prepared.wheels if wheel.name != "torch-emu"])


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

    def start(text: str, *words: str, timeout: float = 120, **environment: str) -> Completed:
        clean = clean_environment(site, **environment)
        return run([sys.executable, "-c", text, *words], env=clean, cwd=tmp_path, timeout=timeout)

    return start
