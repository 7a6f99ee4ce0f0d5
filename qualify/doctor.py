"""What this machine has for a run: one finding each, with what to do where something lacks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from qualify import engine, process
from qualify.errors import EngineError, HostError

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
    yield _compiler()
    yield _images()
    for python in pythons:
        path = shutil.which(f"python{python}")
        yield Finding(
            what=f"Python {python}",
            ok=path is not None,
            found=path or f"no python{python} on PATH",
            mend=f"only nox -s qualify-{python} needs it",
            needed=False,
        )
    yield _disk(cache)


def _room() -> Finding:
    try:
        found = engine.choose("auto")
    except EngineError as error:
        return Finding(what="rooms", ok=False, found=error.what, mend=error.mend)
    return Finding(
        what="rooms",
        ok=found.has_images,
        found=found.note,
        mend="without a container engine the best tier is experimental: apt install docker.io",
        needed=False,
    )


def _compiler() -> Finding:
    words = os.environ.get("CXX", "c++")
    try:
        done = process.run([words, "--version"], timeout=30)
        first = (done.stdout or done.stderr).strip().splitlines()[:1]
        ok, found = done.ok, "".join(first)
    except HostError as error:
        ok, found = False, error.got
    return Finding(what="C++ compiler", ok=ok, found=found, mend="apt install g++")


def _images() -> Finding:
    path = shutil.which("mmdebstrap")
    return Finding(
        what="mmdebstrap",
        ok=path is not None,
        found=path or "not on PATH",
        mend="container images are made with it: apt install mmdebstrap",
        needed=False,
    )


def _disk(cache: Path) -> Finding:
    place = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    return Finding(
        what="disk",
        ok=free >= FREE_BYTES,
        found=f"{free / 1e9:.0f} GB free at {place}, of {FREE_BYTES / 1e9:.0f} GB wanted",
        mend="free some, or set QUALIFY_CACHE to a folder on a larger disk",
    )
