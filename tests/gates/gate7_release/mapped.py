"""The files that a process has code from, and whose each is: the facts, not the judgement."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from child import run_python
from gate7_release import elf, records

TELL = """
import json, sys
mapped = set()
with open("/proc/self/maps") as file:
    for line in file:
        _, mode, _, _, _, *name = line.rstrip("\\n").split(None, 5)
        if "x" in mode and name and name[0].startswith("/"):
            mapped.add(name[0])
print(json.dumps([sorted(mapped), sys.path]))
"""
"""Each file that code can run from, by its real path; a deleted file and memory with a name too.
Data that libraries of the system map, such as locales and caches of user names, is no code."""

SYSTEM = [Path(name).resolve() for name in ("/lib", "/lib64", "/usr/lib", "/usr/lib64")]
INTERPRETER = Path(sys.base_prefix).resolve() / sys.platlibdir
PACKAGES = {"site-packages", "dist-packages"}

GRAFTED = re.compile(r"(-[0-9a-f]{8})+$")
"""What auditwheel adds to the name of a library that it put into a wheel."""
OPENMP = {"libgomp", "libiomp5", "libomp"}


class Process(NamedTuple):
    files: list[Path]
    search: list[str]
    """Its sys.path."""


def process(code: str) -> Process:
    """A Python that has run `code`."""
    done = run_python(code + TELL)
    assert done.status == 0, done.told
    files, search = json.loads(done.stdout)
    return Process([Path(name) for name in files], search)


def recorded(process: Process) -> dict[Path, records.Row]:
    """What a RECORD on the process's path says of each file, for those that one lists."""
    names = {path.name for path in process.files}
    found = {}
    for distribution in metadata.distributions(path=process.search):
        for row in records.rows(distribution):
            if row.path.name in names:
                found[row.path.resolve()] = row
    return {path: found[path] for path in process.files if path in found}


def of_the_system(path: Path) -> bool:
    """Whether it lies where the system or the interpreter has its libraries, or is the latter.

    A folder of packages is none of these, wherever it lies.
    """
    if path == Path(sys.executable).resolve():
        return True
    inside = any(path.is_relative_to(folder) for folder in (*SYSTEM, INTERPRETER))
    return inside and path.is_file() and not PACKAGES & set(path.parts)


def copies(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Libraries by what they are, whichever name, version or place each copy has."""
    found: dict[str, list[Path]] = {}
    for path in files:
        name = (elf.soname(path) if path.is_file() else "") or path.name
        if name.startswith("lib") and ".so" in name:
            found.setdefault(family(name), []).append(path)
    return found


def family(name: str) -> str:
    """`libgfortran` of `libgfortran-040039e1-0352e75f.so.5.0.0`; one name for all of OpenMP."""
    stem = GRAFTED.sub("", name.partition(".so")[0])
    return "OpenMP" if stem in OPENMP else stem
