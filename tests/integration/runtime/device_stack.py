"""The driver shim and the runtime as installed wheels, built once for a state of their sources.

With EMU_SANITIZE=address,undefined (or thread) both are built with these sanitizers. The process
that loads them needs the sanitizer's library and libstdc++ in LD_PRELOAD:
"$(cc -print-file-name=libasan.so) $(cc -print-file-name=libstdc++.so.6)".
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

from qualify.process import run

TREE = Path(__file__).parents[3]
SOURCES = (TREE / "driver_shim", TREE / "runtime_pkg")
BUILD_SECONDS = 1200
SANITIZE = os.environ.get("EMU_SANITIZE", "")


def clean_environment(site: Path, **more: str) -> dict[str, str]:
    """What a process needs to find the packages, and a sanitizer to find itself."""
    names = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS") if SANITIZE else ()
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {"PATH": os.defpath, "PYTHONPATH": str(site), **kept, **more}


def _digest() -> str:
    """Of all source files; what a build leaves in `build/` is not one."""
    state = hashlib.sha256(f"{sys.version} {SANITIZE}".encode())
    for folder in SOURCES:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and parts[0] != "build" and "__pycache__" not in parts:
                state.update(f"{path}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _install(target: Path) -> None:
    """Wheels of both, then an install beside `target` that takes its place at once."""
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    wheels = partial / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2", "LD_PRELOAD": ""}
    if SANITIZE:
        environment["SKBUILD_CMAKE_DEFINE"] = f"EMU_SANITIZE={SANITIZE}"
        environment["SKBUILD_BUILD_DIR"] = f"build/{SANITIZE.replace(',', '-')}"
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, *SOURCES]
    done = run(build, env=environment, timeout=BUILD_SECONDS)
    assert done.ok, done.stdout[-4000:] + done.stderr[-4000:]
    install = [*pip, "install", "--no-deps", "--prefix", partial, *wheels.glob("*.whl")]
    done = run(install, timeout=BUILD_SECONDS)
    assert done.ok, done.stderr[-4000:]
    partial.rename(target)


def installed() -> Path:
    """The site-packages folder of a prefix with the two packages, built first if need be."""
    root = TREE / ".cache" / "device-stack" / (SANITIZE or "plain")
    root.mkdir(parents=True, exist_ok=True)
    target = root / _digest()
    with (root / "lock").open("w") as lock:  # the workers of one run, and other runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            for old in root.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            _install(target)
    (packages,) = target.glob("lib/python*/site-packages")
    return packages
