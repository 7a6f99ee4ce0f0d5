"""However a process is started, it loads our libraries, ours only, and each once."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from child import run_python
from gate7_release import elf
from gate7_release.installed import DISTRIBUTIONS, binaries, site
from gate7_release.test_programs import start

MADE_ROOM = "/opt/venv"  # where containers and sandboxes have their environment

USE = """
import torch
assert torch.ones(8, device="emu").sum().item() == 8
"""

OURS = ("emu_driver_shim/lib/libemudrv.so", "emu_runtime/lib/libemurt.so")
PATHS = """
import ctypes
from emu_runtime import library

class Found(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]

def file_of(path, symbol):
    found = Found()
    address = ctypes.cast(getattr(ctypes.CDLL(path), symbol), ctypes.c_void_p)
    assert ctypes.CDLL(None).dladdr(address, ctypes.byref(found))
    return found.file.decode()

print(json.dumps([file_of(str(library.driver_path()), "emu_driver_get_api"),
                  file_of(library.load(), "emurt_get_api")]))
"""
"""The files that the two libraries' one function each is in, in a process that has used them."""


@pytest.mark.check("gate7.install.decoys", obligations=["I4"], kind="focused test")
def test_decoys(tmp_path: Path) -> None:
    """A file of the same name on LD_LIBRARY_PATH, PATH or beside the user is loaded instead."""
    for name in (
        "libemudrv.so",
        "libemudrv.so.1",
        "libemurt.so",
        "libemurt.so.1",
        "libtorch_emu.so",
    ):
        (tmp_path / name).write_text("not a library")
    for name in ("emud", "emu-as"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 66\n")
        program.chmod(0o755)
    done = run_python(
        USE,
        cwd=tmp_path,
        env={"LD_LIBRARY_PATH": str(tmp_path), "PATH": f"{tmp_path}:{os.environ.get('PATH', '')}"},
    )
    assert done.status == 0, done.told


@pytest.mark.check("gate7.install.decoy_packages", obligations=["I3", "I4"], kind="focused test")
@pytest.mark.parametrize("name", ["emu_driver_shim", "emu_runtime", "torch_emu"])
def test_decoy_packages(name: str, tmp_path: Path) -> None:
    """A package of that name on PYTHONPATH is used in ours' place, and nobody says so."""
    decoy = tmp_path / name
    decoy.mkdir()
    (decoy / "__init__.py").touch()
    told = run_python(USE, env={"PYTHONPATH": str(tmp_path)})
    # In the plugin's place nothing of ours runs: there PyTorch tells the name.
    said = name if name == "torch_emu" else str(decoy)
    assert told.status != 0 and said in told.stderr, told.told
    if name != "emu_runtime":  # whose program it is
        diagnosis = start("emu-diag", "--json", PYTHONPATH=str(tmp_path))
        steps = json.loads(diagnosis.stdout)["steps"]
        (step,) = [step for step in steps if step["name"] == "nothing in their place"]
        assert diagnosis.returncode == 1 and str(decoy) in json.dumps(step), step


@pytest.mark.check("gate7.install.preloaded", obligations=["I4", "I7"], kind="focused test")
@pytest.mark.parametrize(
    "library", ["emu_driver_shim/lib/libemudrv.so", "emu_runtime/lib/libemurt.so"]
)
def test_preloaded(library: str, tmp_path: Path) -> None:
    """LD_PRELOAD brings another library of that name, and calls go to it, and nobody says so."""
    other = shutil.copy(site() / library, tmp_path)
    env = {"LD_PRELOAD": str(other)}
    done = run_python(f"import json\n{USE}\n{PATHS}", env=env)
    assert done.status == 0, done.told
    assert json.loads(done.stdout) == [str(site() / path) for path in OURS]
    told = start("emu-diag", "--json", **env)
    assert told.returncode == 1, told.stdout
    assert str(other) in told.stdout and "LD_PRELOAD" in told.stdout, told.stdout


@pytest.mark.check("gate7.install.shadow_folder", obligations=["I1"], kind="focused test")
def test_shadow(tmp_path: Path) -> None:
    """In a folder that has a subfolder of a package's name, the package is not found."""
    for name in ("torch_emu", "emu_runtime", "emu_driver_shim", "emu"):
        (tmp_path / name).mkdir()
    done = run_python(USE, cwd=tmp_path)
    assert done.status == 0, done.told


@pytest.mark.check("gate7.install.import_orders", obligations=["B8", "I1"], kind="focused test")
@pytest.mark.parametrize(
    "order",
    ["-".join(order) for order in itertools.permutations(("numpy", "torch", "torch_emu"))]
    + ["emu_runtime-torch", "torch-emu_runtime", "emu_driver_shim-torch_emu-torch"],
)
def test_import_orders(order: str) -> None:
    """It works only when one package is imported before another."""
    done = run_python("\n".join(f"import {name}" for name in order.split("-")) + USE)
    assert done.status == 0, done.told
    assert done.stderr == "", done.told


@pytest.mark.check("gate7.install.symbols_resolve", obligations=["I4"], kind="focused test")
def test_immediate_binding() -> None:
    """A symbol is missing; nothing is said until the call that needs it."""
    libraries = [p for name in DISTRIBUTIONS for p in binaries(name) if ".so" in p.name]
    assert len(libraries) >= 3
    for path in libraries:
        first = (
            "import torch\n"
            if any("torch" in n or "c10" in n for n in elf.read(path).needed)
            else ""
        )
        done = run_python(
            f"{first}import ctypes, os\nctypes.CDLL({str(path)!r}, mode=os.RTLD_NOW)",
            env={"LD_BIND_NOW": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )
        assert done.status == 0, f"{path.name}: {done.told}"


@pytest.mark.check("gate7.install.clean_environment", obligations=["B8", "I5"], kind="focused test")
@pytest.mark.parametrize("home", ["none", "missing", "root", "read_only"])
def test_environment(home: str, tmp_path: Path) -> None:
    """In a service with no HOME, or one that cannot be written to, the first use fails."""
    shut = tmp_path / "home"
    shut.mkdir()
    shut.chmod(0o555)
    env: dict[str, str | None] = {name: None for name in os.environ}
    value = {"missing": str(tmp_path / "nowhere"), "root": "/", "read_only": str(shut)}.get(home)
    env["HOME"] = value
    done = run_python(
        USE + "\nassert torch.ones(2, device='emu').add(1).tolist() == [2, 2]", env=env
    )
    assert done.status == 0, done.told
    assert list(shut.iterdir()) == [], "something was written where nothing may be"


@pytest.mark.check("gate7.install.source_unreachable", obligations=["B8", "I3"], kind="inspection")
def test_source(detail: Callable[..., None]) -> None:
    """The tests pass because they ran against the checkout, and not against what users install."""
    done = run_python(
        USE
        + """
import json, sys
from pathlib import Path
loaded = sorted({str(Path(m.__file__).resolve()) for n, m in list(sys.modules.items())
                 if n.split(".")[0] in ("torch_emu", "emu_runtime", "emu_driver_shim", "qualify")
                 and getattr(m, "__file__", None)})
print(json.dumps([sys.path, loaded]))
"""
    )
    assert done.status == 0, done.told
    search, loaded = json.loads(done.stdout)
    assert loaded and all(Path(p).is_relative_to(site()) for p in loaded), loaded
    assert not [p for p in search if Path(p, "pyproject.toml").exists()]
    assert not list(site().glob("__editable__*")), "an editable install points at a checkout"
    checkouts = []
    for folder, names, _ in os.walk("/", onerror=None):
        if folder == "/":
            names[:] = [n for n in names if n not in ("proc", "sys")]
        if {"driver_shim", "framework_plugin"} <= set(names):
            checkouts.append(folder)
            names.clear()
    detail(loaded=loaded, checkouts=checkouts)
    if sys.prefix == MADE_ROOM:  # a plain environment hides nothing, and its record says so
        assert checkouts == [], "a checkout can be reached from here"
