"""The wheels of others that a room installs: torch and its closure, and the gates' tools.

One folder a Python, so that `pip install --no-index --find-links FOLDER` needs
nothing else; `requirements.txt` in it names what to install. Files that several
Pythons share are downloaded once and are one file on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from qualify import process
from qualify.errors import HostError, InputError
from qualify.interpreter import Interpreter
from qualify.stage import Stages, sha256_of

DOWNLOAD_SECONDS = 3600
SUMS = "SHA256SUMS"


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """A complete wheelhouse. `sha256` is over the sorted (file name, digest) lines."""

    folder: Path
    python: str
    sha256: str
    torch: str
    """Version of torch as its wheel says it, such as "2.13.0+cpu"."""
    torch_wheel: Path


def fetch(stages: Stages, interpreter: Interpreter, constraints: Path) -> Closure:
    """Download `requirements.txt` beside `constraints`, at the versions pinned there.

    For `interpreter`, from the index that pip is configured for; only wheels, never a
    source build. Raises HostError with pip's own words when that fails.
    """
    requirements = constraints.with_name("requirements.txt")
    for path in (constraints, requirements):
        if not path.is_file():
            raise InputError("no such file", expected="a list of requirements", got=str(path))
    inputs = {
        "python": interpreter.minor,
        "machine": f"{platform.system()} {platform.machine()}",
        "constraints": sha256_of(constraints),
        "requirements": sha256_of(requirements),
    }
    output = stages.make(
        "wheelhouse",
        inputs,
        lambda folder: _download(interpreter, constraints, requirements, folder),
    )
    return read(output.path, interpreter.minor)


def read(folder: Path, python: str) -> Closure:
    """The facts of a complete wheelhouse."""
    sums = (folder / SUMS).read_bytes()
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
        sha256=hashlib.sha256(sums).hexdigest(),
        torch=str(parse_wheel_filename(torch[0].name)[1]),
        torch_wheel=torch[0],
    )


def _download(
    interpreter: Interpreter, constraints: Path, requirements: Path, folder: Path
) -> None:
    others = [path.parent for path in sorted(folder.parent.glob(f"[!.]*/{SUMS}"))]
    words: list[str | os.PathLike[str]] = [*_pip(interpreter), "download", "--no-cache-dir"]
    words += ["--only-binary=:all:", "--disable-pip-version-check", "--progress-bar=off"]
    words += ["--dest", folder, "--constraint", constraints, "--requirement", requirements]
    # pip prefers a local file to the same version of an index, so this saves the download.
    for other in others:
        words += ["--find-links", other]
    done = process.run(words, timeout=DOWNLOAD_SECONDS)
    if not done.ok:
        raise HostError(
            f"pip could not download the closure of torch for Python {interpreter.minor}",
            expected="every requirement as a wheel",
            got=(done.stderr.strip() or "a timeout")[-800:],
            mend="Check the network and pip's index configuration",
        )
    lines = []
    for wheel in sorted(folder.glob("*.whl")):
        digest = sha256_of(wheel)
        share(wheel, digest, others)
        lines.append(f"{digest}  {wheel.name}\n")
    (folder / SUMS).write_text("".join(lines))
    names = [line for line in requirements.read_text().splitlines() if line and line[0] != "#"]
    (folder / "requirements.txt").write_text("\n".join(names) + "\n")


def _pip(interpreter: Interpreter) -> list[str | os.PathLike[str]]:
    """The pip of this session where it is of that Python; the distribution's may lack pip."""
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}" == interpreter.minor
    return [sys.executable if ours else interpreter.executable, "-I", "-m", "pip"]


def share(wheel: Path, digest: str, others: list[Path]) -> None:
    """Make `wheel` one file with its copy in another wheelhouse, if one has it."""
    for other in others:
        with contextlib.suppress(OSError):  # no links here, or the other was evicted just now
            if f"{digest}  {wheel.name}\n" in (other / SUMS).read_text():
                temporary = wheel.with_suffix(".link")
                temporary.hardlink_to(other / wheel.name)
                temporary.replace(wheel)
                return
