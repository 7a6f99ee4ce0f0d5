"""A room: a clean machine in which a cell is installed and its gates run.

One class for every engine. A room holds nothing of this machine but what its
specification names; it has no network, no added capability, a bounded number of
processes and bounded memory. Leaving the context removes it, on an exception
and on Ctrl-C too; rooms of runs that died are swept when the next one opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from qualify.engine import Engine, RoomKind
from qualify.process import Completed


class RoomFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says about a room. Known before the room is opened.

    `repeat_of` names the other room where this one is a repeat on the same OS.
    """

    name: str
    kind: RoomKind
    os_id: str
    os_version: str
    image: str
    """Digest of the image, or of the sandbox's layer; empty for a plain room."""
    python: str
    torch: str
    kernel: str
    isolation: tuple[str, ...]
    repeat_of: str = ""


class RoomSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to open a room. `digest` identifies it in a gate's key."""

    engine: Engine
    facts: RoomFacts
    digest: str
    work_bytes: int | None = None
    """Bound of the work folder; None for what the disk has."""


class Room:
    """An open room; made by `open_room`, used as a context manager.

    `python` is the interpreter inside that has torch and the installed wheels;
    `work` is the folder that commands start in and may write to. Both are paths
    inside the room. A room that died raises RoomError from every method.
    """

    spec: RoomSpec
    python: str
    work: str

    @property
    def facts(self) -> RoomFacts:
        raise NotImplementedError

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        user: str = "room",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes = b"",
    ) -> Completed:
        """Run `argv` inside. `user` is "room" (unprivileged) or "root" (to install).

        The environment is clean: PATH, HOME, LANG and `env`, nothing else. After
        `timeout` seconds the command is ended and `timed_out` is true.
        """
        raise NotImplementedError

    def install(self, wheels: Sequence[Path], *, timeout: float = 300) -> Completed:
        """pip install --no-index the wheels into the room's environment."""
        raise NotImplementedError

    def put(self, source: Path, target: str = "") -> str:
        """Copy a file or folder under `work` (or to `target`, relative to `work` or absolute).

        `target` is the folder that receives it. Returns the path inside.
        """
        raise NotImplementedError

    def get(self, path: str) -> bytes:
        """The bytes of a file inside (relative to `work`, or absolute)."""
        raise NotImplementedError

    def __enter__(self) -> Room:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise NotImplementedError


def open_room(spec: RoomSpec) -> Room:
    """A fresh room for `spec`, not started before it is entered."""
    raise NotImplementedError
