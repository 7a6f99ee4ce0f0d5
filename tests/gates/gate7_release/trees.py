"""What a tree of installed files must be: what the wheels themselves say, and no more.

The wheel is the oracle, and not another install: each file that it holds is there with its
bytes, each program that it declares can be run, and all else is known of the installers.
One thing is not told: what pip moved aside, under a name that starts with `~`, and never takes
up again when it is killed. Whoever wants to know whether something comes of that has to use it.
"""

from __future__ import annotations

import configparser
import os
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from gate7_release import records
from gate7_release.environments import Environment

INSTALLERS_OWN = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"}


class Contents(NamedTuple):
    """What wheels are when they are installed: digests of files below the site by name, what
    installers may add there, and programs below the environment's bin."""

    files: dict[str, str]
    programs: set[str]
    may_be: set[str]
    runnable: set[str]


def contents(wheels: Sequence[Path]) -> Contents:
    made = Contents({}, set(), set(), set())
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                path, data = Path(entry.filename), archive.read(entry)
                if path.parts[0].endswith(".dist-info"):
                    made.may_be.update(f"{path.parts[0]}/{name}" for name in INSTALLERS_OWN)
                if path.name == "entry_points.txt":
                    made.programs.update(_programs(data.decode()))
                if entry.external_attr >> 16 & 0o100:
                    made.runnable.add(entry.filename)
                if not entry.is_dir() and path.name != "RECORD":
                    made.files[entry.filename] = records.digest_of(data)
    return made


def differences(environment: Environment, *wheels: Path) -> list[str]:
    """How the environment differs from one with `wheels` and what came with it, in words."""
    must = contents(wheels)
    found = dict(_files(environment.site))
    left = found.keys() - must.files.keys() - must.may_be
    wrong = [f"{name} is missing" for name in sorted(must.files.keys() - found.keys())]
    wrong += [f"{name} is left over" for name in sorted(left)]
    wrong += [
        f"{name} is another file"
        for name in sorted(must.files.keys() & found.keys())
        if must.files[name] != found[name]
    ]
    bin = environment.root / "bin"
    programs = {path.name for path in bin.iterdir() if not path.is_symlink()} - _brought(bin)
    wrong += [f"bin/{name} is left over" for name in sorted(programs - must.programs)]
    runnable = [bin / name for name in must.programs]
    runnable += [environment.site / name for name in must.runnable]
    wrong += [f"{path} cannot be run" for path in sorted(runnable) if not os.access(path, os.X_OK)]
    return [*wrong, *unrecorded(environment)]


def unrecorded(environment: Environment) -> list[str]:
    """What is not as RECORD says, of each distribution that was installed into this environment."""
    folders = [path for path in environment.site.glob("*.dist-info") if _is_ours(path.name)]
    return [line for path in folders for line in records.wrong(metadata.Distribution.at(path))]


def _files(site: Path) -> Iterator[tuple[str, str]]:
    """Files and empty folders of a site that are not links, and not of the room.

    Compiled Python is there whenever its source is; without that it is left over.
    """
    for folder, names, files in os.walk(site):
        here = Path(folder)
        if here == site:
            brought = {n for n in names if n.endswith(".dist-info") and not _is_ours(n)}
            names[:] = [n for n in names if n not in brought and not n.startswith("~")]
        names[:] = [n for n in names if not (here / n).is_symlink()]
        for file in files:
            path = here / file
            source = here.parent / f"{file.partition('.')[0]}.py"
            compiled = path.suffix == ".pyc" and here.name == "__pycache__" and source.is_file()
            if not path.is_symlink() and not compiled:
                yield str(path.relative_to(site)), records.digest(path)
        if not names and not files and here != site:
            yield f"{here.relative_to(site)}/", ""


def _is_ours(name: str) -> bool:
    return name.startswith(("emu_", "torch_emu"))


def _brought(bin: Path) -> set[str]:
    """What venv puts into a new environment beside the links to Python."""
    return {path.name for path in bin.iterdir() if path.name.lower().startswith("activate")}


def _programs(text: str) -> list[str]:
    read = configparser.ConfigParser(delimiters=("=",))
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(text)
    return list(read["console_scripts"]) if read.has_section("console_scripts") else []
