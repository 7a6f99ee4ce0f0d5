"""What this machine has for a run: one finding each, with what to do where something lacks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from qualify import build, engine, layers, process
from qualify.engine import Engine
from qualify.errors import EngineError, HostError
from qualify.images import Declaration

FREE_BYTES = 30 * 10**9  # the images of one Python and the caches, and what has to stay free


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a run needs. What is not `needed` has a way round it, which `mend` names."""

    what: str
    ok: bool
    found: str
    mend: str = ""
    needed: bool = True


def examine(cache: Path, pythons: tuple[str, ...]) -> Iterator[Finding]:
    """The findings, as they are found. `pythons` are the versions that the matrix has."""
    yield _room()
    yield _git()
    compiler = _compiler()
    yield compiler
    if compiler.ok:
        yield _sodium()
    yield _mmdebstrap()
    yield from map(_python, pythons)
    yield _disk(cache)


def demand(chosen: Engine, declaration: Declaration) -> None:
    """Raise HostError for the first program that a run with `chosen` needs and lacks."""
    findings = [_git()]
    if not chosen.has_images:
        compiler = _compiler()
        findings += [compiler, _sodium()] if compiler.ok else [compiler]
    elif layers.lacks_base(chosen, (declaration.build, *declaration.room)):
        findings.append(_mmdebstrap())
    for finding in findings:
        if not finding.ok:
            raise HostError(finding.found, mend=finding.mend)


def _room() -> Finding:
    try:
        found = engine.choose("auto")
    except EngineError as error:
        return Finding(what="rooms", ok=False, found=error.what, mend=error.mend)
    return Finding(
        what="rooms",
        ok=found.has_images,
        found=found.note,
        mend=f"without a container engine the best tier is experimental: {_engine_mend(found)}",
        needed=False,
    )


def _engine_mend(found: Engine) -> str:
    if "may not open" in found.note:
        return "add this user to the engine's group (usermod -aG docker NAME), and log in again"
    if shutil.which("dockerd"):
        return "start the one that is here (as root: dockerd &)"
    return "apt install docker.io"


def _git() -> Finding:
    return _program("git", mend="apt install git: it lists the sources")


def _compiler() -> Finding:
    what, mend = "C++ compiler", "apt install g++ (10 or newer), or set CXX"
    try:
        return Finding(what=what, ok=True, found=build.host_compiler())
    except HostError as error:
        return Finding(what=what, ok=False, found=error.what, mend=mend)


def _sodium() -> Finding:
    mend = "apt install libsodium-dev"
    try:
        return Finding(what="libsodium", ok=True, found=build.host_sodium())
    except HostError as error:
        return Finding(what="libsodium", ok=False, found=error.what, mend=mend)


def _mmdebstrap() -> Finding:
    mend = "apt install mmdebstrap: container images are made with it"
    return _program("mmdebstrap", mend=mend, needed=False)


def _program(name: str, *, mend: str, needed: bool = True) -> Finding:
    path = shutil.which(name)
    found = path or f"{name} is not installed"
    return Finding(what=name, ok=path is not None, found=found, mend=mend, needed=needed)


def _python(version: str) -> Finding:
    """A name on PATH is not enough: pyenv's stand there for versions that are not selected.

    Nor is an interpreter: Debian's has no `ensurepip` without a package of its own, and rooms
    are virtual environments.
    """
    path = shutil.which(f"python{version}")
    found = path or f"no python{version} on PATH"
    mend = f"only nox -s qualify-{version} needs it, and selects it where pyenv has it"
    ok = False
    if path is not None:
        started = process.run([path, "-I", "-c", ""], timeout=30)
        whole = process.run([path, "-I", "-c", "import ensurepip, venv"], timeout=30)
        ok = started.ok and whole.ok
        if not started.ok:
            found = f"{path} does not run: {''.join(started.stderr.strip().splitlines()[:1])}"
        elif not whole.ok:
            found = f"{path} makes no environments: {whole.stderr.strip().splitlines()[-1]}"
            mend = f"apt install python{version}-venv, or take an interpreter that is whole"
    return Finding(what=f"Python {version}", ok=ok, found=found, mend=mend, needed=False)


def _disk(cache: Path) -> Finding:
    place = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    return Finding(
        what="disk",
        ok=free >= FREE_BYTES,
        found=f"{free / 1e9:.0f} GB free at {place}, of {FREE_BYTES / 1e9:.0f} GB wanted",
        mend="free some, or set QUALIFY_CACHE to a folder on a larger disk",
    )
