"""One run of a wheel's build back end, in the build image or on this machine.

Everything around a build that its bytes must not depend on is an argument, `Surroundings`, so
that the same sources can be built in others (see `qualify.rebuild`). What they may depend on is
the toolchain.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from qualify import layers, process
from qualify.engine import Engine

EPOCH = 1767225600
"""2026-01-01: what every file in a wheel is dated, so that time is not in the bytes."""
CCACHE_BYTES = "2G"
BUILD_SECONDS = 3600


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """What builds: an image of an engine, or this machine. `text` identifies it in a key."""

    text: str
    python: str
    engine: Engine | None = None
    image: str = ""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be different from build to build of one wheel.

    `sources` and `torch` are where a container sees them; on this machine they are seen where they
    lie, which `folder` moves. `user` is a number, None for that of this process. Without `ccache`
    each file is really compiled. `environment` is added to what every build has.
    """

    sources: str = "/src"
    torch: str = "/torch"
    folder: str = ""
    user: int | None = None
    umask: str = "022"
    jobs: int | None = None
    ccache: bool = True
    host: str = ""
    environment: dict[str, str] = {}


USUAL = Surroundings()


class Build(msgspec.Struct, frozen=True):
    """`source` has the package's `folder` and what it reads beside it; `torch` is unpacked."""

    folder: str
    source: Path
    ccache: Path
    torch: Path | None


def run_back_end(tools: Toolchain, build: Build, around: Surroundings, log: Path) -> list[Path]:
    """The wheels that came out, below `build.source`: one where all went well.

    `log` is written as the build goes on.
    """
    inside = tools.engine is not None
    root = around.sources if inside else str(build.source)
    torch = around.torch if inside else str(build.torch)
    words = ["python3" if inside else sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    words += ["--skip-dependency-check", "--outdir", f"{root}/dist", f"-Cbuild-dir={root}/build"]
    maps = f"-ffile-prefix-map={root}=."
    if build.torch is not None:
        words.append(f"-Ccmake.define.EMU_TORCH_ROOT={torch}")
        maps += f" -ffile-prefix-map={torch}=torch"
    words.append(f"{root}/{build.folder}")
    env = {
        "CFLAGS": maps,
        "CXXFLAGS": maps,
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(around.jobs or os.cpu_count() or 1),
        "HOME": "/tmp" if inside else str(build.source),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
    if around.ccache and (inside or shutil.which("ccache")):
        build.ccache.mkdir(exist_ok=True)
        env |= {
            "CCACHE_DIR": "/ccache" if inside else str(build.ccache),
            "CCACHE_MAXSIZE": CCACHE_BYTES,
            "CCACHE_BASEDIR": root,
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_COMPILERCHECK": "content",
            "CMAKE_C_COMPILER_LAUNCHER": "ccache",
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        }
    words = with_umask(words, around)
    env |= around.environment
    if tools.engine is None:
        ok = run_here(words, env, log)
    else:
        volumes = {build.source: (around.sources, "rw")}
        if around.ccache:
            volumes[build.ccache] = ("/ccache", "rw")
        if build.torch is not None:
            volumes[build.torch] = (around.torch, "ro")
        ok = run_in_image(tools, words, env, volumes, log, around=around)
    # What others may still be writing to, or an earlier step left, is no result.
    return sorted((build.source / "dist").glob("*.whl")) if ok else []


def run_in_image(
    tools: Toolchain,
    words: Sequence[str],
    environment: Mapping[str, str],
    volumes: Mapping[Path, tuple[str, str]],
    log: Path,
    *,
    around: Surroundings,
) -> bool:
    """Run `words` in a container of the build image, without network; True for status 0.

    `volumes`: folder here to (folder there, "ro" or "rw"), the latter opened to another user.
    """
    assert tools.engine is not None
    user, hostname = around.user, around.host or None
    for here, (_, mode) in volumes.items():
        if user is not None and mode == "rw":
            _open_to_all(here)
    who = f"{os.getuid()}:{os.getgid()}" if user is None else f"{user}:{user}"
    with (
        tools.engine.open_client(BUILD_SECONDS) as client,
        layers.step(client, tools.image, volumes=volumes, user=who, hostname=hostname) as box,
    ):
        run = client.api.exec_create(box.id, list(words), environment=dict(environment))["Id"]
        with log.open("wb", buffering=0) as file:
            for piece in client.api.exec_start(run, stream=True):
                file.write(piece)
        return bool(client.api.exec_inspect(run)["ExitCode"] == 0)


def with_umask(words: list[str], around: Surroundings) -> list[str]:
    return ["sh", "-c", f'umask {around.umask} && exec "$@"', "sh", *words]


def run_here(words: list[str], environment: Mapping[str, str], log: Path) -> bool:
    """As the user that this process has: to become another one is not every host's to give."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    kept = {name: os.environ[name] for name in ("CC", "CXX") if name in os.environ}
    done = process.run(
        words, env={**kept, **environment, "PATH": path}, timeout=BUILD_SECONDS, log=log
    )
    with log.open("a") as file:
        file.write(done.stderr)
    return done.ok


def _open_to_all(folder: Path) -> None:
    """For a build as another user. What that one makes is removed by this one: see its umask."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o444))
