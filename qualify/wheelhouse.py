"""The wheels of others that a room installs: torch and its closure, and the gates' tools.

One folder a Python, so that `pip install --no-index --find-links FOLDER` needs
nothing else. `requirements.txt` in it names every wheel by version and digest, so that
pip itself refuses other bytes where it installs them. Files that several Pythons share
are downloaded once and are one file on disk.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from packaging.utils import parse_wheel_filename

from qualify import process
from qualify.content import code_of, sha256_of
from qualify.errors import HostError, InputError
from qualify.interpreter import Interpreter, Python, RoomsOwn
from qualify.progress import LOG
from qualify.stage import Stages, remove_tree

DOWNLOAD_SECONDS = 3600
RESOLVE_SECONDS = 600
REQUIREMENTS = "requirements.txt"
Word: TypeAlias = str | os.PathLike[str]
"""Of a command line."""


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """A complete wheelhouse. `sha256` is that of its requirements, which name each digest."""

    folder: Path
    python: str
    sha256: str
    torch: str
    """Version of torch as its wheel says it, such as "2.13.0+cpu"."""
    torch_wheel: Path


def fetch(stages: Stages, python: Python, constraints: Path) -> Closure:
    """Download `requirements.txt` beside `constraints`, at the versions pinned there.

    For `python`, from the index that pip is configured for; only wheels, never a
    source build. Raises HostError with pip's own words when that fails.
    """
    requirements = constraints.with_name(REQUIREMENTS)
    for path in (constraints, requirements):
        if not path.is_file():
            raise InputError("no such file", expected="a list of requirements", got=str(path))
    inputs = {
        "python": python.minor,
        "machine": f"{platform.system()} {platform.machine()}",
        "constraints": sha256_of(constraints),
        "requirements": sha256_of(requirements),
        "code": code_of("wheelhouse"),
    }
    output = stages.make(
        "wheelhouse",
        inputs,
        lambda folder: _download(python, requirements, ["--constraint", constraints], folder),
    )
    return read(output.path, python.minor)


def fetch_companions(stages: Stages, python: Python, companions: Path) -> list[Path]:
    """Download the wheels that `companions` pins for this Python, each by itself."""
    inputs = {
        "python": python.minor,
        "machine": f"{platform.system()} {platform.machine()}",
        "companions": sha256_of(companions),
        "code": code_of("wheelhouse"),
    }
    output = stages.make(
        "companions", inputs, lambda folder: _download(python, companions, ["--no-deps"], folder)
    )
    return sorted(output.path.glob("*.whl"))


def read(folder: Path, python: str) -> Closure:
    """The facts of a complete wheelhouse."""
    torch = sorted(folder.glob("torch-*.whl"))
    if len(torch) != 1:
        raise HostError(
            f"wheelhouse {folder} is damaged",
            expected="one torch wheel",
            got=str(len(torch)),
            mend="Remove that folder and run again",
        )
    return Closure(
        folder=folder,
        python=python,
        sha256=sha256_of(folder / REQUIREMENTS),
        torch=str(parse_wheel_filename(torch[0].name)[1]),
        torch_wheel=torch[0],
    )


def _download(python: Python, wanted: Path, options: Sequence[Word], folder: Path) -> None:
    """The wheels of the list `wanted`; `options` are such as pip and uv both know."""
    others = [path.parent for path in sorted(folder.parent.glob(f"[!.]*/{REQUIREMENTS}"))]
    others = [other for other in others if whole(other)]
    # pip unpacks gigabytes, and one that is killed leaves them: here they go with the stage.
    scratch = folder / ".pip"
    scratch.mkdir()
    words: list[Word] = [*_pip(python), "download", "--no-cache-dir", "--only-binary=:all:"]
    words += ["--disable-pip-version-check", "--progress-bar=off", "--dest", folder]
    match python:
        case Interpreter():
            words += [*options, "--requirement", wanted]
        case RoomsOwn():
            words += ["--no-deps", f"--python-version={python.minor}"]
            words += ["--requirement", _resolved(python, wanted, options, scratch)]
    # pip prefers a local file to the same version of an index, so this saves the download.
    for other in others:
        words += ["--find-links", other]
    env = {**os.environ, "TMPDIR": str(scratch)}
    done = process.run(words, env=env, timeout=DOWNLOAD_SECONDS, log=folder / LOG)
    (folder / LOG).unlink()
    remove_tree(scratch)
    if not done.ok:
        raise HostError(
            f"pip could not download what Python {python.minor} needs",
            expected="every requirement as a wheel",
            got=(done.stderr.strip() or "a timeout")[-800:],
            mend="Check the network and pip's index configuration",
        )
    lines = {wheel: pin(wheel) for wheel in sorted(folder.glob("*.whl"))}
    for wheel, line in lines.items():
        share(wheel, line, others)
    (folder / REQUIREMENTS).write_text("".join(lines.values()))


def _resolved(python: RoomsOwn, wanted: Path, options: Sequence[Word], folder: Path) -> Path:
    """`wanted` and all that it needs, as a list of exact versions.

    pip takes wheels for another Python than its own, and judges markers by its own all the same.
    """
    made = folder / "resolved.txt"
    words: list[Word] = [sys.executable, "-I", "-m", "uv", "pip", "compile", "--quiet"]
    words += ["--no-cache", "--no-header", "--no-annotate", "--only-binary=:all:"]
    words += [f"--python-version={python.minor}", *options, "--output-file", made, wanted]
    env = {**os.environ, "TMPDIR": str(folder)}  # uv that is killed leaves its cache
    done = process.run(words, env=env, timeout=RESOLVE_SECONDS)
    if not done.ok:
        raise HostError(
            f"uv could not resolve what Python {python.minor} needs",
            expected=f"every requirement of {wanted.name} as a wheel",
            got=(done.stderr.strip() or "a timeout")[-800:],
            mend="Check the network and uv's index configuration (UV_INDEX_URL), "
            f"or install Python {python.minor}: its own pip is taken then",
        )
    return made


def _pip(python: Python) -> list[Word]:
    """The pip of this session where it is of that Python, or where no other is; the distribution's
    may lack pip."""
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}" == python.minor
    if isinstance(python, RoomsOwn) or ours:
        return [sys.executable, "-I", "-m", "pip"]
    return [python.executable, "-I", "-m", "pip"]


def pin(wheel: Path) -> str:
    """The line of a requirements file that takes this wheel and no other bytes."""
    name, version, *_ = parse_wheel_filename(wheel.name)
    return f"{name}=={version} --hash=sha256:{sha256_of(wheel)}\n"


def whole(folder: Path) -> bool:
    """Whether each wheel of a wheelhouse is the one that its list pins: damage must not spread."""
    try:
        pinned = (folder / REQUIREMENTS).read_text().splitlines(keepends=True)
        return {pin(wheel) for wheel in folder.glob("*.whl")} == set(pinned)
    except OSError:  # evicted just now
        return False


def share(wheel: Path, line: str, others: list[Path]) -> None:
    """Make `wheel` one file with its copy in another wheelhouse, if one has it."""
    for other in others:
        with contextlib.suppress(OSError):  # no links here, or the other was evicted just now
            if line in (other / REQUIREMENTS).read_text().splitlines(keepends=True):
                temporary = wheel.with_suffix(".link")
                temporary.hardlink_to(other / wheel.name)
                temporary.replace(wheel)
                return
