"""matrix/compat.toml: which releases of driver, runtime, plugin and torch work together.

`here` is the release of the checkout, `before` and `after` are its neighbours. The suite of
gate 7 gets the same file, and holds the installed packages to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from packaging.version import InvalidVersion, Version

from qualify.matrix import Strict, Text, load, no_doubles, whole, wrong

NAMES = ("before", "here", "after")

Interface = Annotated[str, whole(r"[0-9]+\.[0-9]+")]
Row = tuple[bool, bool, bool]
"""Whether the one that asks works with each of `NAMES`."""


class Neighbour(Strict, frozen=True, kw_only=True):
    """A release beside the one here. `made` says how, where none was published: from the source
    that is here, with the numbers below moved."""

    name: Literal["before", "after"]
    made: Literal["moved"]
    version: Text
    driver_interface: Interface
    runtime_interface: Interface


class Meeting(Strict, frozen=True, kw_only=True):
    """What works of one part that asks and one that serves, each at three releases."""

    asks: Literal["driver", "runtime", "plugin"]
    serves: Literal["emud", "driver", "runtime"]
    error: Text
    before: Row
    here: Row
    after: Row


class Torch(Strict, frozen=True, kw_only=True):
    """Minors of torch that the plugin works with, and some that it refuses with `error`."""

    works: tuple[Interface, ...]
    refused: tuple[Interface, ...]
    error: Text


class Compat(Strict, frozen=True, kw_only=True):
    neighbours: tuple[Neighbour, Neighbour]
    meetings: Annotated[tuple[Meeting, ...], msgspec.Meta(min_length=1)]
    torch: Torch

    def __post_init__(self) -> None:
        no_doubles("meetings[{}].asks", (meeting.asks for meeting in self.meetings))
        for number, (neighbour, name) in enumerate(zip(self.neighbours, NAMES[::2], strict=True)):
            place = f"neighbours[{number}]"
            if neighbour.name != name:
                raise wrong(f"{place}.name", name, neighbour.name)
            try:
                Version(neighbour.version)
            except InvalidVersion as error:
                raise msgspec.ValidationError(f"{error} - at `$.{place}.version`") from error

    def require_around(self, version: str) -> None:
        """Raise ValidationError unless one neighbour is older than `version`, and one newer."""
        before, after = (Version(neighbour.version) for neighbour in self.neighbours)
        for number, fits, side in (
            (0, before < Version(version), "an older"),
            (1, Version(version) < after, "a newer"),
        ):
            if not fits:
                expected = f"{side} version than {version}, which is here"
                got = self.neighbours[number].version
                raise wrong(f"neighbours[{number}].version", expected, got)


def read_compat(path: Path, version: str) -> Compat:
    """The compatibility file of a checkout whose release is `version`. Raises InputError."""
    return load(path, Compat, lambda compat: compat.require_around(version))
