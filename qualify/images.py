"""Clean machines as data: which images there are (`containers/images.toml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from qualify import matrix


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One base system. `python` is the minor version that it has of its own."""

    name: str
    os_id: str
    os_version: str
    suite: str
    python: str
    packages: tuple[str, ...]
    tools: tuple[str, ...] = ()
    upstream: Annotated[str, msgspec.Meta(pattern="^(|.+@sha256:[0-9a-f]{64})$")] = ""
    """An image of a registry, by digest only: a tag moves."""


class RoomImage(Image, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base system of a room. `glibc` is the version of its C library."""

    glibc: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+$")]


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`containers/images.toml` as typed data."""

    build: Image
    room: Annotated[tuple[RoomImage, ...], msgspec.Meta(min_length=2)]


def load(path: Path) -> Declaration:
    """Read the declaration; InputError names file, line, key and what was expected."""
    return matrix.load(path, Declaration)
