"""The Python that was asked for: which one it is, and how it moves into a room.

A Python built with a shared library carries a RUNPATH to the folder that it was
built for. `transplant` copies what a room needs of it and gives each ELF file a
search path relative to itself, so that the copy runs from any folder.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from qualify import process
from qualify.content import code_of, sha256_of
from qualify.errors import HostError, InputError
from qualify.stage import Output, Stages

_DROPPED = ("test", "tests", "idlelib", "turtledemo", "tkinter", "site-packages", "__pycache__")
_FACTS = """
import json, sys, sysconfig
print(json.dumps({
    "executable": sys._base_executable, "prefix": sys.base_prefix,
    "version": "%d.%d.%d" % sys.version_info[:3], "minor": "%d.%d" % sys.version_info[:2]}))
"""


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A Python of this machine. `version` is "3.12.1", `minor` is "3.12"."""

    executable: Path
    prefix: Path
    version: str
    minor: str

    @property
    def movable(self) -> bool:
        """Whether it has a prefix of its own; the distribution's Python is spread over /usr."""
        return self.prefix not in (Path("/usr"), Path("/"))


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
        version=facts["version"],
        minor=facts["minor"],
    )


def transplant(stages: Stages, interpreter: Interpreter) -> Output:
    """A copy of `interpreter` (bin, lib) that runs from any folder of a Debian of its age or newer.

    Tests, static libraries and installed packages are left out. Raises HostError
    for a Python that has no prefix of its own.
    """
    if not interpreter.movable:
        raise HostError(
            f"{interpreter.executable} cannot be moved into a room",
            expected="a Python with a folder of its own (pyenv, uv)",
            got=f"prefix {interpreter.prefix}",
            mend=f"Install Python {interpreter.minor} with pyenv or uv",
        )
    inputs = {
        "version": interpreter.version,
        "prefix": str(interpreter.prefix),
        "executable": sha256_of(interpreter.executable),
        "libraries": " ".join(
            sha256_of(path) for path in sorted(interpreter.prefix.glob("lib/libpython*.so.*"))
        ),
        "code": code_of("interpreter"),
    }
    return stages.make("interpreter", inputs, lambda folder: _copy(interpreter, folder))


def _copy(interpreter: Interpreter, folder: Path) -> None:
    name = f"python{interpreter.minor}"
    source, target = interpreter.prefix, folder
    (target / "bin").mkdir()
    (target / "lib").mkdir()
    shutil.copy2(interpreter.executable.resolve(), target / "bin" / name)
    for link in ("python", "python3"):
        (target / "bin" / link).symlink_to(name)
    for library in sorted(source.glob("lib/libpython*.so*")):
        shutil.copy2(library, target / "lib" / library.name, follow_symlinks=False)
    shutil.copytree(
        source / "lib" / name,
        target / "lib" / name,
        symlinks=True,
        ignore=lambda _, names: [
            n for n in names if n in _DROPPED or n.startswith("config-") or n.endswith(".a")
        ],
    )
    (target / "lib" / name / "site-packages").mkdir()
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink() and _has_search_path(path):
            up = "/".join([".."] * (len(path.relative_to(target).parts) - 1))
            patched = process.run(
                ["patchelf", "--set-rpath", f"$ORIGIN/{up}/lib", path], timeout=60
            )
            if not patched.ok:
                raise HostError(f"patchelf failed on {path}: {patched.stderr.strip()}")


def _has_search_path(path: Path) -> bool:
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return False
        file.seek(0)
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        return isinstance(dynamic, DynamicSection) and any(
            tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH") for tag in dynamic.iter_tags()
        )
