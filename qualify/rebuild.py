"""Whether the wheels come out the same, byte for byte, where all around their build is different.

The wheels that are qualified are built once more from the same sources by the same toolchain:
every file compiled anew, in other folders, by another user, later, with another locale, time
zone, umask, host name and number of jobs. A difference is told member by member.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from qualify import build
from qualify.backend import USUAL, Surroundings, Toolchain
from qualify.build import Package, Wheel
from qualify.compare import Difference, compare
from qualify.content import sha256_of
from qualify.engine import Engine
from qualify.images import Declaration
from qualify.interpreter import Python
from qualify.stage import Output, Stages
from qualify.wheelhouse import Closure

OTHER = Surroundings(
    sources="/var/tmp/somewhere-else/with-a-longer-name/sources",
    torch="/opt/another-place/of/torch",
    folder="rebuild/in-another-folder",
    user=4321,
    umask="000",  # beside the usual 022; and what it makes can be removed by whoever started it
    jobs=1,
    ccache=False,
    host="another-host",
    environment={
        "LANG": "C",
        "LC_ALL": "C",
        "TZ": "Pacific/Chatham",
        "HOME": "/var/tmp",
        "USER": "somebody",
        "LOGNAME": "somebody",
        "PYTHONHASHSEED": "4321",
        "COLUMNS": "40",
    },
)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that was qualified, and what its second build gave."""

    name: str
    sha256: str
    again: str
    differences: tuple[Difference, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`varied`: what was different, from the first build to the second. `kept`: what was not."""

    varied: tuple[str, ...]
    kept: tuple[str, ...]
    wheels: tuple[Rebuilt, ...]

    @property
    def same(self) -> bool:
        return bool(self.wheels) and not any(wheel.differences for wheel in self.wheels)


def rebuild(
    stages: Stages,
    tree: Path,
    closure: Closure,
    engine: Engine,
    declaration: Declaration,
    python: Python,
    first: tuple[Wheel, ...],
) -> Report:
    """Build the wheels of `tree` again and compare them with the `first`, in build's order."""
    tools = build.toolchain(stages, engine, declaration.build)
    sdk = build.torch_sdk(stages, closure)
    wheels = [
        rebuild_one(stages, tree, package, tools, python, sdk if package.torch else None, wheel)
        for package, wheel in zip(build.PACKAGES, first, strict=True)
    ]
    varied, kept = surroundings(_around(tools), in_container=engine.has_images)
    return Report(varied=varied, kept=kept, wheels=tuple(wheels))


def rebuild_one(
    stages: Stages,
    tree: Path,
    package: Package,
    tools: Toolchain,
    python: Python,
    sdk: Output | None,
    first: Wheel,
) -> Rebuilt:
    """Build one wheel again and compare it with the `first`."""
    again = build.build_wheel(stages, tree, package, tools, python, sdk, _around(tools))
    return rebuilt(first, again.path)


def rebuilt(first: Wheel, again: Path) -> Rebuilt:
    return Rebuilt(
        name=first.path.name,
        sha256=first.sha256,
        again=sha256_of(again),
        differences=compare(first.path, again),
    )


def _around(tools: Toolchain) -> Surroundings:
    """Only a container can be given another user and host name."""
    return OTHER if tools.engine else msgspec.structs.replace(OTHER, user=None, host="")


def surroundings(
    around: Surroundings, *, in_container: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What differs from a usual build, and what does not, in words."""
    varied = [
        f"umask {USUAL.umask}, then {around.umask}",
        f"jobs as many as cores, then {around.jobs}",
        "compiled files from the cache where they are there, then every file anew",
        "the time of the build",
        *(f"{name}={value} the second time" for name, value in around.environment.items()),
    ]
    kept = ["sources", "toolchain", "time stamps asked for (SOURCE_DATE_EPOCH)"]
    if in_container:
        varied[:0] = [
            f"sources at {USUAL.sources}, then at {around.sources}",
            f"torch at {USUAL.torch}, then at {around.torch}",
            f"this user, then uid {around.user}",
            f"a random host name, then {around.host}",
        ]
    else:
        varied.insert(0, f"sources below the cache, then in {around.folder} there")
        kept += ["user, host name, place of torch: this machine's, without a container engine"]
    return tuple(varied), tuple(kept)
