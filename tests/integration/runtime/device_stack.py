"""The driver shim and the runtime as installed wheels: the pipeline's own.

With EMU_SANITIZE=address,undefined (or thread) both are built here with these sanitizers, once for
a state of their sources. The process that loads them needs the sanitizer's library and libstdc++ in
LD_PRELOAD: "$(cc -print-file-name=libasan.so) $(cc -print-file-name=libstdc++.so.6)".
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
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


def installed(built: Sequence[Path]) -> Path:
    """The site-packages folder of a prefix with the two packages, made first if need be.

    `built` are the pipeline's wheels; with EMU_SANITIZE they give way to instrumented ones.
    """
    root = TREE / ".cache" / "device-stack" / (SANITIZE or "plain")
    root.mkdir(parents=True, exist_ok=True)
    target = root / (_digest(SOURCES) if SANITIZE else _digest(built))
    with (root / "lock").open("w") as lock:  # the workers of one run, and other runs
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            for old in root.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            partial = target.with_suffix(".partial")
            _install(_instrumented(partial / "wheels") if SANITIZE else built, partial)
            partial.rename(target)  # takes its place at once
    (packages,) = target.glob("lib/python*/site-packages")
    return packages


def wait_for(node: Path, emud: subprocess.Popen[bytes]) -> None:
    """Until the emud that starts has made the node."""
    deadline = time.monotonic() + 20
    while not node.exists():
        assert emud.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def served(site: Path, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """emud on the node emu0 in `folder`, which has to end in order unless the block ended it."""
    node = folder / "emu0"
    emud = site / "emu_driver_shim" / "bin" / "emud"
    process = subprocess.Popen(
        [emud, "--foreground", "--node", node, "--threads", "2", "--log", folder / "log", *options],
        env=clean_environment(site),
    )
    try:
        wait_for(node, process)
        yield process
        if process.poll() is None:
            process.terminate()
            assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def _digest(paths: Sequence[Path]) -> str:
    """Of the files, and of all in the folders; what a build leaves in `build/` is not a source."""
    state = hashlib.sha256(f"{sys.version} {SANITIZE}".encode())
    for top in paths:
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            parts = path.relative_to(top).parts
            if path.is_file() and parts[:1] != ("build",) and "__pycache__" not in parts:
                state.update(f"{path}\0{path.stat().st_mode}\0".encode() + path.read_bytes())
    return state.hexdigest()[:16]


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def _instrumented(target: Path) -> list[Path]:
    environment = {
        **os.environ,
        "CMAKE_BUILD_PARALLEL_LEVEL": "2",
        "LD_PRELOAD": "",
        "SKBUILD_CMAKE_DEFINE": f"EMU_SANITIZE={SANITIZE}",
        "SKBUILD_BUILD_DIR": f"build/{SANITIZE.replace(',', '-')}",
    }
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", target, *SOURCES]
    done = run(build, env=environment, timeout=BUILD_SECONDS)
    assert done.ok, done.stdout[-4000:] + done.stderr[-4000:]
    return sorted(target.glob("*.whl"))


def _install(wheels: Sequence[Path], prefix: Path) -> None:
    done = run([*PIP, "install", "--no-deps", "--prefix", prefix, *wheels], timeout=BUILD_SECONDS)
    assert done.ok, done.stderr[-4000:]
