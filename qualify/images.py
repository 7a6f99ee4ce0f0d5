"""Clean machines as data: which images there are (`containers/images.toml`).

Names, packages and tools become words of apt's, mmdebstrap's and pip's command lines and parts of
an image's tag, so each has the form that those define and none can be taken for an option.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from packaging.utils import canonicalize_name

from qualify import matrix
from qualify.matrix import PythonMinor, no_doubles, whole

Name = Annotated[str, whole("[a-z0-9]+(?:[._-][a-z0-9]+)*")]
"""A part of an image's tag, by the engines' rule, which suites follow too."""
OsRelease = Annotated[str, whole("[a-z0-9._-]+")]
"""A value as os-release(5) has it for ID and VERSION_ID."""
Package = Annotated[str, whole("[a-z0-9][a-z0-9+.-]*[a-z0-9+]")]
"""A package's name by Debian's policy, section 5.6.1; with "-" at its end, apt would remove it."""
Tool = Annotated[str, whole("[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9][A-Za-z0-9.!+]*")]
"""A project and its one version."""


Place = Annotated[str, whole("(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+")]
"""An absolute path."""


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One base system. `python` is the minor version that it has of its own.

    `links` are symbolic links to make: path to target.
    """

    name: Name
    os_id: OsRelease
    os_version: OsRelease
    suite: Name
    python: PythonMinor
    packages: Annotated[tuple[Package, ...], msgspec.Meta(min_length=1)]
    tools: tuple[Tool, ...] = ()
    links: dict[Place, Place] = {}
    upstream: Annotated[str, whole("|[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")] = ""
    """An image of a registry, by digest only: a tag moves."""


class RoomImage(Image, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base system of a room. `glibc` is the version of its C library."""

    glibc: Annotated[str, whole(r"[0-9]+\.[0-9]+")]


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`containers/images.toml` as typed data."""

    build: Image
    room: Annotated[tuple[RoomImage, ...], msgspec.Meta(min_length=2)]

    def __post_init__(self) -> None:
        no_doubles("room[{}].name", (image.name for image in self.room))
        places = [f"room[{number}]" for number in range(len(self.room))]
        for key, image in zip(("build", *places), (self.build, *self.room), strict=True):
            no_doubles(f"{key}.packages[{{}}]", image.packages)
            tools = (canonicalize_name(tool.partition("==")[0]) for tool in image.tools)
            no_doubles(f"{key}.tools[{{}}]", tools)


def load(path: Path) -> Declaration:
    """Read the declaration; InputError names file, line, key and what was expected."""
    return matrix.load(path, Declaration)
