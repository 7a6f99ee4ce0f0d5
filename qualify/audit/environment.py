"""The environments that a set of wheels is for, and which of its wheels is installed in each."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec
from packaging.specifiers import InvalidSpecifier
from packaging.tags import Tag, compatible_tags, cpython_tags, generic_tags
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
_MACS: dict[str, tuple[str, ...]] = {"universal2": ("arm64", "x86_64")}
_MACS |= {name: ("x86_64",) for name in ("intel", "fat64", "fat3", "universal")}
"""Of a tag for several machines, those that there are (packaging.tags.mac_platforms)."""
_WINDOWS = {"win32": "x86", "win_amd64": "AMD64", "win_arm64": "ARM64"}


class Environment(msgspec.Struct, frozen=True, order=True):
    minor: int
    """Of Python 3."""
    abi: str
    """Such as cp313, cp313t of a Python without a global lock, or pypy311_pp73."""
    system: str
    """Such as linux; any, where no wheel of the set is for one."""
    machine: str

    @property
    def name(self) -> str:
        python = "PyPy" if self.pypy else "Python"
        free = "t" if self.abi.endswith("t") else ""
        return f"{python} 3.{self.minor}{free} {self.system} {self.machine}".rstrip()

    @property
    def pypy(self) -> str:
        """The version of PyPy; empty for CPython."""
        found = re.fullmatch(r"pypy3\d+_pp(\d)(\d+)", self.abi)
        return f"{found[1]}.{found[2]}" if found else ""

    def markers(self) -> dict[str, str]:
        """What markers of requirements are evaluated with (PEP 508): nothing of this machine.
        Where no wheel is for a system, it is Linux; which kernel runs, nobody knows."""
        system = ("posix", "linux", "Linux")
        if self.system == "macosx":
            system = ("posix", "darwin", "Darwin")
        elif self.system in _WINDOWS:
            system = ("nt", "win32", "Windows")
        python = f"3.{self.minor}.{MICROS}"
        return {
            **dict(zip(("os_name", "sys_platform", "platform_system"), system, strict=True)),
            "platform_machine": _WINDOWS.get(self.system, self.machine),
            "platform_release": "",
            "platform_version": "",
            "python_version": f"3.{self.minor}",
            "python_full_version": python,
            "implementation_name": "pypy" if self.pypy else "cpython",
            "implementation_version": self.pypy or python,
            "platform_python_implementation": "PyPy" if self.pypy else "CPython",
        }


def of_set(wheels: list[Wheel], pythons: tuple[str, ...]) -> list[Environment]:
    """Each of `pythons`, and of those without a lock what tags name, on each system of the tags.
    Where none of them has a wheel of each distribution, the other Pythons that tags name too."""
    tags = {tag for wheel in wheels if (name := file_name(wheel)) for tag in name[3]}
    named = {system for tag in tags for system in _systems(tag.platform)}
    systems = sorted(named - {(ANY, "")}) or [(ANY, "")]
    minors = [int(python.partition(".")[2]) for python in pythons]
    usual = {(minor, f"cp3{minor}") for minor in minors}
    others = {python for tag in tags if (python := _python(tag, max(minors)))}
    usual |= {(minor, abi) for minor, abi in others if abi == f"cp3{minor}t"}
    found = [Environment(*abi, *system) for abi in sorted(usual) for system in systems]
    if any(not selected(wheels, each)[1] for each in found):
        return found
    more = sorted(others - usual)
    return found + [Environment(*abi, *system) for abi in more for system in systems]


def _python(tag: Tag, newest: int) -> tuple[int, str] | None:
    """The one Python that a tag is for, or the oldest of those that are newer than `newest`."""
    found = re.fullmatch(r"(cp|pp|py)3(\d{1,2})", tag.interpreter)
    if found is None:
        return None
    minor = int(found[2])
    if found[1] == "pp":
        return (minor, tag.abi) if tag.abi != "none" else None
    if re.fullmatch(rf"cp3{minor}[mt]", tag.abi):
        return minor, tag.abi
    is_one = found[1] == "cp" and tag.abi != "abi3"
    return (minor, f"cp3{minor}") if is_one or minor > newest else None


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
        if {(ANY, ""), here} & _systems(tag.platform)
        and (key := (tag.interpreter, tag.abi)) in order
    ]
    return max(fits, default=None)


@functools.cache
def _order(minor: int, abi: str) -> dict[tuple[str, str], int]:
    interpreter = f"pp3{minor}" if abi.startswith("pypy") else f"cp3{minor}"
    if interpreter.startswith("pp"):
        tags = list(generic_tags(interpreter, [abi], [ANY]))
    else:
        tags = list(cpython_tags((3, minor), [abi], [ANY]))
    tags += compatible_tags((3, minor), interpreter, [ANY])
    keys = dict.fromkeys((tag.interpreter, tag.abi) for tag in tags)
    return {key: -place for place, key in enumerate(keys)}


def _systems(platform: str) -> set[tuple[str, str]]:
    for pattern, system in _SYSTEMS:
        if found := pattern.fullmatch(platform):
            machines = _MACS.get(found[1], (found[1],)) if system == "macosx" else (found[1],)
            return {(system, machine) for machine in machines}
    return {(platform, "")}


def _serves(wheel: Wheel, minor: int) -> bool:
    try:
        allowed = versions.specifiers(metadata(wheel).value("requires-python"))
    except InvalidSpecifier:
        return True  # a finding of METADATA
    return any(allowed.contains(release, prereleases=True) for release in releases(minor))


def releases(minor: int) -> Iterator[Version]:
    return (Version(f"3.{minor}.{micro}") for micro in range(MICROS))
