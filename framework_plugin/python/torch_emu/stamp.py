"""Which torch the library was built for, read from files; nothing is loaded.

The library's C++ interface is that of one torch minor. Beside another it would import, run and
crash at some later call, so the version is compared before the library is loaded. It is written in
the library's own bytes and in `stamp.json` beside it; both have to agree.
"""

from __future__ import annotations

import importlib.metadata
import json
import mmap
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARIES = Path(__file__).parent / "lib"
NAME = "libtorch_emu.so"
_MARK = b"EMU-TORCH-STAMP "


class PluginError(RuntimeError):
    """Why the device cannot be used, and what to do."""


@dataclass(frozen=True)
class Torch:
    """What was imported as torch."""

    version: str
    folder: Path


@dataclass(frozen=True)
class Stamp:
    torch: str
    plugin: str


def minor(version: str) -> str:
    """`2.13` of `2.13.0+cpu`."""
    found = re.match(r"\d+\.\d+", version)
    if found is None:
        raise PluginError(f"torch version: expected MAJOR.MINOR..., got {version!r}")
    return found[0]


def available(libraries: Path = LIBRARIES) -> list[str]:
    """Minors of torch that this installation has a library for."""
    return sorted(p.parent.name[5:] for p in libraries.glob(f"torch*/{NAME}"))


def library_for(torch: Torch, libraries: Path = LIBRARIES) -> Path:
    """The library for this torch, its stamps checked; PluginError says what is wrong."""
    wanted = minor(torch.version)
    built = available(libraries)
    if not built:
        raise PluginError(
            f"torch-emu has no library in {libraries}: the installation is damaged. {reinstall()}"
        )
    if wanted not in built:
        raise _other_torch(", ".join(built), torch)
    path = libraries / f"torch{wanted}" / NAME
    stamp = in_library(path)
    if stamp != beside(path):
        raise PluginError(
            f"{path} is stamped {stamp}, stamp.json beside it {beside(path)}: "
            f"the installation is damaged. {reinstall()}"
        )
    if minor(stamp.torch) != wanted:
        raise _other_torch(minor(stamp.torch), torch)
    return path


def in_library(path: Path) -> Stamp:
    """The stamp in the library's bytes."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise PluginError(f"{path} is empty: the installation is damaged. {reinstall()}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_MARK)
            end = data.find(b"\n", at)
            if at < 0 or end < 0:
                raise PluginError(f"{path} has no torch stamp: it is not ours. {reinstall()}")
            return _parse(data[at + len(_MARK) : end], path)


def beside(path: Path) -> Stamp:
    """The stamp in the file beside the library."""
    file = path.with_name("stamp.json")
    try:
        return _parse(file.read_bytes(), file)
    except FileNotFoundError as error:
        raise PluginError(
            f"{file} is missing: the installation is damaged. {reinstall()}"
        ) from error


def _parse(data: bytes, where: Path) -> Stamp:
    try:
        read = json.loads(data)
        return Stamp(torch=read["torch"], plugin=read["plugin"])
    except (ValueError, KeyError, TypeError) as error:
        raise PluginError(
            f"{where}: expected a stamp with `torch` and `plugin`, got {data[:80]!r}. {reinstall()}"
        ) from error


def _other_torch(built: str, torch: Torch) -> PluginError:
    beside = Path(__file__).parents[1] / "torch"
    if beside.is_dir() and not beside.samefile(torch.folder):
        path = os.environ.get("PYTHONPATH")
        where = f"PYTHONPATH, which is {path!r}" if path else "sys.path"
        mend = f"it hides the one in {beside}: take its folder out of {where}"
    else:
        mend = (
            f'run `{sys.executable} -m pip install "torch=={built.rpartition(", ")[2]}.*"`, '
            f"or install the torch-emu for torch {minor(torch.version)}"
        )
    return PluginError(
        f"torch-emu was built for torch {built} and this is torch {torch.version} in "
        f"{torch.folder}; {mend}"
    )


def reinstall(name: str = "torch-emu") -> str:
    """The command that mends what is installed of `name`: pip takes out what it replaces by its
    RECORD, and refuses where a kill left it without one."""
    how, which = "--force-reinstall", name
    try:
        installed = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        if installed.read_text("RECORD") is None:
            how = "--ignore-installed --no-deps"
            if installed.read_text("METADATA") is not None:  # what is beside it stays as it is
                which = f"{name}=={installed.version}"
    return f"Run `{sys.executable} -m pip install {how} {which}`."
