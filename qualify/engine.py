"""What rooms are made with on this machine: a container engine, a sandbox, or nothing.

An engine is a value. `choose` looks once and says in `note`, in one sentence,
why it took what it took.
"""

from __future__ import annotations

import enum

import msgspec


class RoomKind(enum.Enum):
    DOCKER = "docker"
    PODMAN = "podman"
    SANDBOX = "sandbox"
    PLAIN = "plain"


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One way to make rooms. `endpoint` is the engine's socket URL, empty without an engine."""

    kind: RoomKind
    endpoint: str = ""
    version: str = ""
    note: str = ""

    @property
    def has_images(self) -> bool:
        return self.kind in (RoomKind.DOCKER, RoomKind.PODMAN)


def choose(asked: str = "auto") -> Engine:
    """The engine for "auto", "docker", "podman", "sandbox" or "plain".

    "auto" takes the first that answers, in that order. Raises InputError for
    another word, EngineError when a named engine is not there, and EngineError
    within 10 s when an engine's socket accepts and does not answer.
    """
    raise NotImplementedError
