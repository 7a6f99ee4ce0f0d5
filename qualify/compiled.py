"""A Python that is compiled for a room, as its user would whose system is too old to have it.

Of a source package only what its distribution took from upstream is used. mmdebstrap's apt
downloads and verifies it, as it does a base system's packages. It is compiled in a container
without network, of the room's own system, for the folder where `layers.interpreter_image`
puts it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec

from qualify import layers, owner, process
from qualify.backend import USUAL, Toolchain, run_in_image
from qualify.content import code_of
from qualify.engine import Engine
from qualify.errors import HostError, RoomError
from qualify.images import Compiled, RoomImage
from qualify.interpreter import PROOF, Moved
from qualify.progress import LOG
from qualify.stage import Stages

_FETCH_SECONDS = 600
_SOURCE = "source"
_FETCH = f"""
set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
cd "$1"
sed -i 'p;s/^deb /deb-src /' etc/apt/sources.list
apt-get update
mkdir {_SOURCE} && cd {_SOURCE}
apt-get source --download-only --tar-only """
"""In a system that has lists of packages and nothing else: where those come from, sources are."""
_COMPILE = """
set -e
mkdir /tmp/source /tmp/build && cd /tmp/build
tar --extract --file /source/*.orig.tar.* --directory /tmp/source --strip-components=1
/tmp/source/configure --prefix={prefix} --without-ensurepip --without-static-libpython \
  --disable-test-modules
make --jobs={jobs}
make install
{prefix}/bin/python{minor} -I -c '{proof}'
"""
"""Without the optimizations that take a run of all tests: what is installed is tried, not how
fast it is."""


def compile_python(stages: Stages, engine: Engine, image: RoomImage, compiled: Compiled) -> Moved:
    """The Python of `compiled` (bin, lib), which takes `image` for the libraries that it links.

    Raises HostError where the source cannot be had, RoomError with the end of what the build
    said.
    """
    wanted = {"suite": compiled.suite, "source": compiled.source, "code": code_of("compiled")}
    source = stages.make("python-source", wanted, lambda folder: _fetch(stages, compiled, folder))
    packages = tuple(sorted({*image.packages, *compiled.packages}))
    system = msgspec.structs.replace(image, name=f"{image.name}-compiler", packages=packages)
    inputs = {
        "source": source.sha256,
        "python": compiled.python,
        "system": msgspec.json.encode(system).decode(),
        "proof": PROOF,
        "code": code_of("compiled", "layers"),
    }

    def make(folder: Path) -> None:
        with engine.open_client(layers.STEP_SECONDS) as client:
            base = layers.base_image(stages, client, system)
        tools = Toolchain(text=base.tag, python=image.python, engine=engine, image=base.tag)
        _compile(tools, compiled, source.path, folder)

    made = stages.make("compiled-python", inputs, make)
    return Moved(path=made.path, key=made.key, glibc=image.glibc)


def _fetch(stages: Stages, compiled: Compiled, folder: Path) -> None:
    with owner.scratch(stages.root, ".source-") as scratch:
        done = process.run(
            [
                "mmdebstrap",
                "--variant=extract",
                "--format=null",
                f"--extract-hook={_FETCH}{compiled.source}",
                f"--extract-hook=copy-out /{_SOURCE} {shlex.quote(str(folder))}",
                compiled.suite,
                os.devnull,
            ],
            env={**os.environ, "TMPDIR": str(scratch)},
            timeout=_FETCH_SECONDS,
        )
    if not done.ok or len(list(folder.glob(f"{_SOURCE}/*.orig.tar.*"))) != 1:
        raise HostError(
            f"the source of {compiled.source} ({compiled.suite}) could not be had",
            expected="one archive of upstream's, by mmdebstrap and apt",
            got=done.stderr.strip()[-800:],
            mend="Check the network; mmdebstrap needs root or user namespaces, and Debian's keys",
        )


def _compile(tools: Toolchain, compiled: Compiled, source: Path, folder: Path) -> None:
    prefix = f"/opt/python/{compiled.python}"
    program = _COMPILE.format(
        prefix=prefix, minor=compiled.python, jobs=os.cpu_count() or 1, proof=PROOF
    )
    environment = {"HOME": "/tmp", "LANG": "C.UTF-8"}
    volumes = {source / _SOURCE: ("/source", "ro"), folder: (prefix, "rw")}
    log = folder / LOG
    words = ["sh", "-c", program]
    if not run_in_image(tools, words, environment, volumes, log, around=USUAL):
        raise RoomError(
            f"Python {compiled.python} could not be compiled for {compiled.room}",
            expected=f"an interpreter with all of its standard modules, from {compiled.source}",
            got="none; the build said:\n" + log.read_text(errors="replace").strip()[-3000:],
        )
    log.unlink()
