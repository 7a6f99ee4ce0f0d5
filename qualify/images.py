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
from qualify.errors import InputError
from qualify.matrix import PythonMinor, no_doubles, whole, wrong

Name = Annotated[str, whole("[a-z0-9]+(?:[._-][a-z0-9]+)*")]
"""A part of an image's tag, by the engines' rule, which suites follow too."""
OsRelease = Annotated[str, whole("[a-z0-9._-]+")]
"""A value as os-release(5) has it for ID and VERSION_ID, or for VERSION_CODENAME where a system in
the making has no number yet."""
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
    past_date: bool = False
    """Whether the suite's lists of packages may be past their date, as a snapshot's or a slow
    mirror's are: they are signed all the same."""
    upstream: Annotated[str, whole("|[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")] = ""
    """An image of a registry, by digest only: a tag moves."""


class RoomImage(Image, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base system of a room. `glibc` is the version of its C library."""

    glibc: Annotated[str, whole(r"[0-9]+\.[0-9]+")]


class Compiled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Python that is compiled in a room's own system, as its user would who has no other.

    It is made of what `source`, a source package of `suite`, has from upstream; `packages` are
    what that takes beside those of the room.
    """

    room: Name
    python: PythonMinor
    suite: Name
    source: Package
    packages: Annotated[tuple[Package, ...], msgspec.Meta(min_length=1)]


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a room differs from the plain one, in which commands run as uid 1000 without network.

    `read_only`: nothing but the work folder and /tmp can be written to once the wheels are in.
    `device_apart`: devices run in containers of their own, and one node of each is handed in.
    `packages` are added to the image's.
    """

    name: Name
    user: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 1000
    read_only: bool = False
    network: bool = False
    device_apart: bool = False
    packages: tuple[Package, ...] = ()


PLAIN = Setting(name="plain")


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`containers/images.toml` as typed data."""

    build: Image
    room: Annotated[tuple[RoomImage, ...], msgspec.Meta(min_length=2)]
    setting: tuple[Setting, ...] = ()
    compiled: tuple[Compiled, ...] = ()

    def __post_init__(self) -> None:
        no_doubles("room[{}].name", (image.name for image in self.room))
        no_doubles("setting[{}].name", (each.name for each in (*self.setting, PLAIN)))
        places = [f"room[{number}]" for number in range(len(self.room))]
        for key, image in zip(("build", *places), (self.build, *self.room), strict=True):
            no_doubles(f"{key}.packages[{{}}]", image.packages)
            tools = (canonicalize_name(tool.partition("==")[0]) for tool in image.tools)
            no_doubles(f"{key}.tools[{{}}]", tools)
        self._judge_compiled()

    def _judge_compiled(self) -> None:
        no_doubles("compiled[{}]", (f"{each.python} in {each.room}" for each in self.compiled))
        own = {image.name: image.python for image in self.room}
        for number, each in enumerate(self.compiled):
            key = f"compiled[{number}]"
            no_doubles(f"{key}.packages[{{}}]", each.packages)
            if each.room not in own:
                raise wrong(f"{key}.room", f"one of {', '.join(own)}", each.room)
            if each.python == own[each.room]:
                expected = f"one that {each.room} has not of its own"
                raise wrong(f"{key}.python", expected, each.python)


def named(declaration: Declaration, room: str) -> tuple[RoomImage, Setting]:
    """Image and setting of a room called "IMAGE" or "IMAGE+SETTING". Raises InputError."""
    image_name, plus, setting_name = room.partition("+")
    images = {image.name: image for image in declaration.room}
    settings = {each.name: each for each in declaration.setting}
    if image_name not in images or (plus and setting_name not in settings):
        raise InputError(
            f"unknown room {room!r}",
            expected=f"one of {', '.join(images)}, with or without +{', +'.join(settings)}",
            got=room,
            mend="Mend its name, or declare it in containers/images.toml",
        )
    return images[image_name], settings.get(setting_name, PLAIN)


def load(path: Path) -> Declaration:
    """Read the declaration; InputError names file, line, key and what was expected."""
    return matrix.load(path, Declaration)
