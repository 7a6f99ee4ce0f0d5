"""What files hold, and how a change of it is seen.

A digest is always over bytes that were read. `differences` may trust a file that it read
before: one whose size, inode, times of change and mode are as they were then. The kernel
sets the time of the last change (ctime) at each write, rename and copy, and no call sets it
back, so a file that was swapped or edited does not pass.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec


class File(msgspec.Struct, frozen=True, array_like=True):
    """A file or a link (of which the target is the content). `mark` is what the disk says of it:
    size, inode, times of modification and of change in ns."""

    sha256: str
    mode: int
    mark: tuple[int, int, int, int]


def survey(folder: Path) -> dict[str, File]:
    """Every file and link under `folder`, read, by its relative path."""
    return {name: _read(folder / name) for name, _ in _walk(folder)}


def differences(
    folder: Path, known: Mapping[str, File], *, read_all: bool
) -> tuple[list[str], dict[str, File]]:
    """The names that are gone, new or other than `known`, and what `folder` holds now.

    Without `read_all`, a file that carries the mark that is known is not read again.
    """
    found = {}
    for name, status in _walk(folder):
        before = known.get(name)
        if before is None or read_all or before.mark != _mark(status):
            found[name] = _read(folder / name)
        else:
            found[name] = before
    names = found.keys() | known.keys()
    return sorted(n for n in names if _identity(found.get(n)) != _identity(known.get(n))), found


def digest_of(files: Mapping[str, File]) -> str:
    """sha256 over the name, mode and content of each of `files`."""
    lines = sorted((name, *_identity(file)) for name, file in files.items())
    return hashlib.sha256(msgspec.json.encode(lines)).hexdigest()


def digest_files(folder: Path, names: Sequence[str]) -> str:
    """sha256 over (name, execute bit, sha256) of each named file under `folder`."""
    lines = []
    for name in sorted(names):
        path = folder / name
        executable = "x" if path.stat().st_mode & 0o100 else "-"
        lines.append(f"{name} {executable} {sha256_of(path)}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def code_of(*modules: str) -> str:
    """sha256 over the source of these modules of the library, or packages with their data.

    An input of what they make: nobody has to remember to count up a version.
    """
    text = "".join(f"{module} {_CODE[module]}\n" for module in modules)
    return hashlib.sha256(text.encode()).hexdigest()


def _walk(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Name and status of all that is no folder; nothing where `folder` is gone."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
            else:
                yield f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)


def _read(path: Path) -> File:
    status = path.lstat()  # before the content: a write that comes in between is seen next time
    link = stat.S_ISLNK(status.st_mode)
    digest = hashlib.sha256(bytes(path.readlink())).hexdigest() if link else sha256_of(path)
    return File(digest, status.st_mode, _mark(status))


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _identity(file: File | None) -> tuple[str, int]:
    return (file.sha256, file.mode) if file else ("", 0)


_HERE = Path(__file__).parent
_CODE = {path.stem: sha256_of(path) for path in _HERE.glob("*.py")}
_CODE |= {
    folder.name: digest_files(folder, sorted(p.name for p in folder.iterdir() if p.is_file()))
    for folder in _HERE.iterdir()
    if (folder / "__init__.py").exists()
}
"""Read once and early: what is edited during a run is not what runs."""
