"""The published build: the same wheels by cibuildwheel, from the same image.

No registry is needed: the image carries what cibuildwheel looks for. Its test step is not used;
what it would test is the machine that built.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from qualify import build, owner, process
from qualify.backend import BUILD_SECONDS, Toolchain
from qualify.build import Package, Wheel, laid_out, sources
from qualify.container import OWNER_LABEL, engine_errors, remove, sweep
from qualify.content import code_of, digest_files, sha256_of
from qualify.engine import Engine, RoomKind
from qualify.errors import BuildError, HostError, InputError
from qualify.images import Declaration
from qualify.progress import LOG
from qualify.rebuild import Rebuilt, Report, rebuilt
from qualify.stage import Output, Stages
from qualify.wheelhouse import Closure

CONFIGURATION = "containers/cibuildwheel.toml"
CHECK_SECONDS = 300
RUN_LABEL = "qualify.cibuildwheel"
_PROJECT = "/project"


def publish(
    stages: Stages,
    tree: Path,
    closure: Closure,
    engine: Engine,
    declaration: Declaration,
    first: tuple[Wheel, ...],
) -> Report:
    """Build the wheels of `tree` with cibuildwheel and compare them with the `first`.

    Raises HostError without an engine or cibuildwheel, BuildError with the end of its output.
    """
    release = ready(engine)
    check_metadata(first)
    tools = build.toolchain(stages, engine, declaration.build)
    sdk = build.torch_sdk(stages, closure)
    return Report(
        varied=(
            f"built by cibuildwheel {release}",
            f"sources at {_PROJECT}, copied by cibuildwheel",
            "as root, and every file compiled anew",
        ),
        kept=("sources", "image", "flags, which a test compares"),
        wheels=tuple(
            publish_one(
                stages, tree, package, tools, release, sdk if package.torch else None, wheel
            )
            for package, wheel in zip(build.PACKAGES, first, strict=True)
        ),
    )


def publish_one(
    stages: Stages,
    tree: Path,
    package: Package,
    tools: Toolchain,
    release: str,
    sdk: Output | None,
    first: Wheel,
) -> Rebuilt:
    """One wheel by cibuildwheel of that `release`, compared with the `first`."""
    names = sources(tree, package)
    configuration = tree / CONFIGURATION
    if not configuration.is_file():
        raise InputError(f"{configuration} is not there", expected="cibuildwheel's configuration")
    inputs = {
        "sources": digest_files(tree, names),
        "configuration": sha256_of(configuration),
        "toolchain": tools.text,
        "torch": sdk.sha256 if sdk else "",
        "cibuildwheel": release,
        "code": code_of("cibuildwheel"),
    }

    def make(folder: Path) -> None:
        place = "cibuildwheel"
        with laid_out(stages, tree, package, names, inputs["sources"], place) as source:
            _run(tools, source, package, configuration, sdk, folder)

    made = stages.make(f"cibuildwheel-{package.name}", inputs, make).path
    return rebuilt(first, build.only_wheel(made, package))


def check_metadata(wheels: tuple[Wheel, ...]) -> None:
    """Ask twine, strictly, whether an index would take the wheels. Raises BuildError."""
    paths = [str(wheel.path) for wheel in wheels]
    words = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *paths]
    done = process.run(words, timeout=CHECK_SECONDS)
    if not done.ok:
        raise BuildError(
            "an index would not take a wheel",
            expected="what twine check --strict passes",
            got=(done.stdout + done.stderr).strip()[-2000:],
        )


def ready(engine: Engine) -> str:
    """The version of cibuildwheel. Raises HostError where it cannot run."""
    if not engine.has_images:
        raise HostError(
            "cibuildwheel builds in containers",
            expected="docker or podman, running",
            got=engine.note,
            mend="Start an engine; without one, `qualify rebuild` compares two builds",
        )
    if shutil.which(engine.kind.value) is None:
        raise HostError(f"{engine.kind.value} has no program on PATH, which cibuildwheel runs")
    try:
        return version("cibuildwheel")
    except PackageNotFoundError:
        raise HostError(
            "cibuildwheel is not installed",
            mend="pip install 'qualify[cibuildwheel]' (Python 3.11 or newer)",
        ) from None


def _run(
    tools: Toolchain,
    source: Path,
    package: Package,
    configuration: Path,
    sdk: Output | None,
    folder: Path,
) -> None:
    assert tools.engine is not None
    mine = f"{RUN_LABEL}={secrets.token_hex(8)}"
    options = ["--network=none", f"--label={OWNER_LABEL}={owner.current().text()}"]
    options.append(f"--label={mine}")
    if sdk is not None:
        options.append(f"--volume={sdk.path / 'torch'}:/torch:ro")
    scratch = folder / "tmp"  # a run that is stopped leaves it: here it goes with the stage
    scratch.mkdir()
    address = "CONTAINER_HOST" if tools.engine.kind is RoomKind.PODMAN else "DOCKER_HOST"
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("CIBW_")},
        address: tools.engine.endpoint,
        "CIBW_CONTAINER_ENGINE": container_engine(tools.engine, options),
        "CIBW_MANYLINUX_X86_64_IMAGE": tools.image,
        "CIBW_PROJECT_REQUIRES_PYTHON": f">={tools.python}",  # the image's Python only builds
        "CIBW_CACHE_PATH": str(folder / "cache"),
        "TMPDIR": str(scratch),
    }
    words = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--archs", "x86_64"]
    words += ["--config-file", str(configuration), "--output-dir", str(folder), package.folder]
    log = folder / LOG
    with no_container_left(tools.engine, mine):
        done = process.run(words, env=env, cwd=source, timeout=BUILD_SECONDS, log=log)
    with log.open("a") as file:
        file.write(done.stderr)
    for path in (folder / "cache", scratch):
        shutil.rmtree(path, ignore_errors=True)
    if not done.ok:
        said = log.read_text(errors="replace").strip()
        raise BuildError(
            f"cibuildwheel could not build {package.name}",
            expected="one wheel",
            got=f"status {done.status}; it said:\n{said[-3000:]}\n",
        )


def container_engine(engine: Engine, options: Sequence[str]) -> str:
    """The word in which cibuildwheel is told what to make a container with: a path may have in it
    what would end an option there."""
    create = f"{engine.kind.value}; create_args: {shlex.join(options)}"
    return f"{create}; disable_host_mount: true"


@contextmanager
def no_container_left(engine: Engine, label: str) -> Iterator[None]:
    """Those with this label are removed at the end: cibuildwheel that is stopped does it not."""
    with engine.open_client() as client, engine_errors("look after cibuildwheel's container"):
        sweep(client)
        try:
            yield
        finally:
            found = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
            for container in found:
                remove(client, container.id)
