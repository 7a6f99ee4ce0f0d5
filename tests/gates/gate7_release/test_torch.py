"""Beside another torch than the installed one, or one of another minor: refused or told.

Other torches are made of the room's: another minor is its version.py rewritten.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from child import run_python
from gate7_release.installed import mirror, other_torch, run_in, site
from gate7_release.releases import Releases
from gate7_release.test_broken import ASK
from gate7_release.test_programs import start


@pytest.mark.check("gate7.skew.torch", obligations=["C1", "C3"], kind="focused test")
def test_minors(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """Beside another minor of torch the plugin is loaded, and crashes at some later call."""
    (works,) = releases.compat["torch"]["works"]
    refused = releases.compat["torch"]["refused"]
    detail(refused=refused, made=f"version.py of the room's torch {works} rewritten")
    for minor in refused:
        place = mirror(tmp_path / minor)
        other_torch(place, of_minor(minor))
        done = run_in(place, ASK + CAUSE)
        assert done.status == 0, done.told
        assert works in done.stdout and minor in done.stdout and "pip install" in done.stdout
        cause = f"{releases.compat['torch']['error']} 0"
        assert done.stdout.rstrip().endswith(cause), f"no {cause}: {done.told}"


CAUSE = """
loaded = open("/proc/self/maps").read().count("libtorch_emu")
try:
    torch.ones(2, device="emu")
except RuntimeError as error:
    print(type(error.__cause__).__name__, loaded)
"""


def of_minor(minor: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"(['\"])\d+\.\d+\.", rf"\g<1>{minor}.", text)


def library(folder: Path) -> str:
    return str(shutil.copy(site() / "torch" / "lib" / "libc10.so", folder))


def no_torch(folder: Path) -> Path:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").touch()
    return folder / "torch"


FIRST: dict[str, tuple[str, Callable[[Path], object]]] = {
    "libraries": ("LD_LIBRARY_PATH", library),
    "preloaded": ("LD_PRELOAD", library),
    "another_minor": ("PYTHONPATH", lambda folder: other_torch(folder, of_minor("2.12"))),
    "same_release": ("PYTHONPATH", other_torch),
    "no_torch": ("PYTHONPATH", no_torch),
}
"""What is found before the installed torch: the variable that brings it, and who makes it."""

USE = """
try:
    import torch_emu, torch
    assert torch.ones(8, device="emu").sum().item() == 8
    with open("/proc/self/maps") as file:
        print("WORKS", *{line.split(None, 5)[5].strip() for line in file if "/libc10.so" in line})
except (ImportError, RuntimeError) as error:
    print(error)
"""


@pytest.mark.check("gate7.install.other_torch", obligations=["C1", "I4"], kind="focused test")
@pytest.mark.parametrize("what", FIRST)
def test_other_torch(what: str, tmp_path: Path) -> None:
    """Another torch is found first, and calls go through its interface, and nobody says so."""
    variable, make = FIRST[what]
    made = str(make(tmp_path))
    env = {variable: made if variable == "LD_PRELOAD" else str(tmp_path)}
    done = run_python(USE, env=env)
    assert done.status == 0, done.told
    own = done.stdout == f"WORKS {site() / 'torch' / 'lib' / 'libc10.so'}\n"
    said = made in done.stdout and variable in done.stdout
    # The linker passes LD_LIBRARY_PATH over where torch was built with an RPATH.
    works = {"same_release": own, "libraries": own or said}
    assert works.get(what, said), done.told
    if variable == "PYTHONPATH":
        told = start("emu-diag", "--json", **env)
        assert told.returncode == 1, told.stdout
        assert made in told.stdout and variable in told.stdout, told.stdout
