"""What wheels may hold: the table `audit` of matrix/policy.toml."""

from __future__ import annotations

import fnmatch
import functools
import re
from typing import Annotated

import msgspec

from qualify.audit.archive import Limits
from qualify.audit.finding import Level, kinds

Text = Annotated[str, msgspec.Meta(pattern=r"\S")]

Python = Annotated[str, msgspec.Meta(pattern=r"^3\.[0-9]{1,2}$(?!\n)")]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Promise(_Strict, frozen=True, kw_only=True):
    """Of one distribution, by its normalized name, beyond what holds for all.

    `content`: patterns, each of which some member matches, and that together match every member
    outside of the dist-info folder. `programs`: patterns of members that must be executable.
    What its libraries export is in matrix/exports.toml, every symbol.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$(?!\n)")]
    largest_bytes: int
    content: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    hardened: bool = False
    """Whether each compiled file is bound at load, read-only after that, and has a build id."""


Exports = dict[str, dict[str, tuple[str, ...]]]
"""Distribution and member to each symbol that it defines for others, as `name` or `name@version`.
What was released stays: it is a promise."""


class Accepted(_Strict, frozen=True, kw_only=True):
    """A finding that is true and stays, with the reason. All but the reason are patterns."""

    finding: Text
    wheel: Text
    member: Text = "*"
    reason: Text

    def __post_init__(self) -> None:
        if not any(matches(id, (self.finding,)) for id in kinds()):
            raise ValueError(f"expected a pattern of ids of findings, got {self.finding}")


class Audit(_Strict, frozen=True, kw_only=True):
    limits: Limits
    denies: tuple[Level, ...]
    """Levels of findings with which the pipeline does not qualify wheels."""
    pythons: Annotated[tuple[Python, ...], msgspec.Meta(min_length=1)]
    """Those in which a set of wheels is looked at."""
    build_folders: tuple[str, ...]
    host_libraries: tuple[str, ...]
    """Patterns of what drivers and the system give beside the platform tag's own list."""
    interpreters: dict[str, tuple[str, ...]]
    """Architecture to the program interpreters that its systems have."""
    provided: dict[str, tuple[str, ...]]
    """Distribution to patterns of the libraries that it loads for others, before they are."""
    strays: tuple[str, ...]
    stray_folders: tuple[str, ...]
    startup: tuple[str, ...]
    """Patterns of .pth files that may be, of which the reason is in the file."""
    wheels: tuple[Promise, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    exports: Exports = {}
    """Those of matrix/exports.toml."""

    def promise(self, name: str) -> Promise | None:
        return next((promise for promise in self.wheels if promise.name == name), None)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return _union(patterns).match(name) is not None


@functools.cache
def _union(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)")
