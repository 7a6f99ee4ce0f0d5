"""The environments that a set of wheels is for, and which of its wheels is installed in each."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec
from packaging.markers import default_environment
from packaging.specifiers import InvalidSpecifier
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.version import Version

from qualify.audit import versions
from qualify.audit.wheel import Wheel, file_name, metadata

ANY = "any"
MICROS = 40
"""Of a minor version of Python; one of them has to satisfy Requires-Python."""
_SYSTEMS = (
    (re.compile(r"(?:manylinux(?:\d+|_\d+_\d+)|linux)_(\w+)"), "linux"),
    (re.compile(r"musllinux_\d+_\d+_(\w+)"), "musllinux"),
    (re.compile(r"macosx_\d+_\d+_(\w+)"), "macosx"),
)


class Environment(msgspec.Struct, frozen=True, order=True):
    minor: int
    """Of Python 3."""
    abi: str
    """Such as cp313, or cp313t of a Python without a global lock."""
    system: str
    """Such as linux; any, where no wheel of the set is for one."""
    machine: str

    @property
    def name(self) -> str:
        return f"Python 3.{self.minor}{self.abi.lstrip('cp0123456789')} {self.system}".strip()

    def markers(self) -> dict[str, str]:
        """What markers of requirements are evaluated with (PEP 508)."""
        found = {name: str(value) for name, value in default_environment().items()}
        found["python_version"] = f"3.{self.minor}"
        found["python_full_version"] = f"3.{self.minor}.{MICROS}"
        if self.system in ("linux", "musllinux"):
            found["os_name"], found["sys_platform"], found["platform_system"] = (
                *("posix", "linux", "Linux"),
            )
            found["platform_machine"] = self.machine
        return found


def of_set(wheels: list[Wheel], pythons: tuple[str, ...]) -> list[Environment]:
    """Each of `pythons`, and of those without a lock what tags name, on each system of the tags."""
    tags = {tag for wheel in wheels if (name := file_name(wheel)) for tag in name[3]}
    systems = sorted({_system(tag.platform) for tag in tags} - {(ANY, "")}) or [(ANY, "")]
    minors = [int(python.partition(".")[2]) for python in pythons]
    abis = {(minor, f"cp3{minor}") for minor in minors}
    for tag in tags:
        if free := re.fullmatch(r"cp3(\d+)t", tag.abi):
            abis.add((int(free[1]), tag.abi))
    return [Environment(*abi, *system) for abi in sorted(abis) for system in systems]


def selected(wheels: list[Wheel], environment: Environment) -> tuple[list[Wheel], list[Wheel]]:
    """Of each distribution the wheel that an installer takes there: of the newest version the one
    with the nearest tag. And those that no wheel of their distribution stands for there.

    A file whose name is no wheel's is always taken: that is a finding of its own.
    """
    best: dict[str, tuple[tuple[Version, int], Wheel]] = {}
    taken: list[Wheel] = []
    for wheel in wheels:
        name = file_name(wheel)
        if name is None:
            taken.append(wheel)
            continue
        rank = _rank(name[3], environment)
        if rank is None or not _serves(wheel, environment.minor):
            continue
        one = ((name[1], rank), wheel)
        if name[0] not in best or best[name[0]][0] < one[0]:
            best[name[0]] = one
    taken += [wheel for _, wheel in best.values()]
    absent = [w for w in wheels if (name := file_name(w)) and name[0] not in best]
    return sorted(taken, key=wheels.index), absent


def _rank(tags: frozenset[Tag], environment: Environment) -> int | None:
    """The greater, the nearer; None where no tag fits."""
    here = (environment.system, environment.machine)
    order = _order(environment.minor, environment.abi)
    fits = [
        order[key]
        for tag in tags
        if _system(tag.platform) in ((ANY, ""), here)
        and (key := (tag.interpreter, tag.abi)) in order
    ]
    return max(fits, default=None)


@functools.cache
def _order(minor: int, abi: str) -> dict[tuple[str, str], int]:
    tags: list[Tag] = list(cpython_tags((3, minor), [abi], [ANY]))
    tags += compatible_tags((3, minor), f"cp3{minor}", [ANY])
    keys = dict.fromkeys((tag.interpreter, tag.abi) for tag in tags)
    return {key: -place for place, key in enumerate(keys)}


def _system(platform: str) -> tuple[str, str]:
    for pattern, system in _SYSTEMS:
        if found := pattern.fullmatch(platform):
            return system, found[1]
    return platform, ""


def _serves(wheel: Wheel, minor: int) -> bool:
    try:
        allowed = versions.specifiers(metadata(wheel).value("requires-python"))
    except InvalidSpecifier:
        return True  # a finding of METADATA
    return any(allowed.contains(release, prereleases=True) for release in releases(minor))


def releases(minor: int) -> Iterator[Version]:
    return (Version(f"3.{minor}.{micro}") for micro in range(MICROS))
