"""The last resort where a machine has neither an engine nor namespaces.

A fresh virtual environment in a folder of its own, and commands that inherit
nothing. It hides nothing of the machine and bounds nothing, and a record says so.
Temporary files have a second folder, with a short path: the path of a Unix socket
has 107 bytes (unix(7)), and a cache may lie deep.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from qualify import owner, process
from qualify.errors import RoomError
from qualify.process import Completed
from qualify.stage import remove_tree

_LINK = "tmp"
_TEMPORARY = re.compile("/tmp/q-[0-9a-f]{8}")  # a link to elsewhere is the room's own work
ISOLATION = ("nothing inherited from the caller's environment", "nothing else is kept apart")


class Plain:
    """The walls, such as they are. Its paths are real paths of this machine."""

    def __init__(self, interpreter: Path, wheelhouse: Path, scratch: Path) -> None:
        self._interpreter = interpreter
        self._wheelhouse = wheelhouse
        self._scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        sweep(scratch)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{owner.current().text()}-", dir=scratch))
        self._temporary = Path("/tmp", f"q-{secrets.token_hex(4)}")
        # The link first: what a killed run left is found by it.
        (self._folder / _LINK).symlink_to(self._temporary)
        self._temporary.mkdir(mode=0o700)
        self._open = False

    @property
    def python(self) -> str:
        return str(self._folder / "venv/bin/python")

    @property
    def work(self) -> str:
        return str(self._folder / "work")

    @property
    def temporary(self) -> str:
        return str(self._temporary)

    def start(self) -> None:
        """Make the virtual environment and install the closure, offline."""
        self._open = True
        Path(self.work).mkdir()
        # It has no HOME, and pip would find its user's configuration by the system's list of users.
        pip = [
            "/usr/bin/env",
            f"PIP_CONFIG_FILE={os.devnull}",
            self.python,
            "-I",
            "-m",
            "pip",
            "install",
            "--no-index",
            "--quiet",
        ]
        pip += ["--find-links", str(self._wheelhouse)]
        pip += ["--requirement", str(self._wheelhouse / "requirements.txt")]
        for words in (
            [str(self._interpreter), "-I", "-m", "venv", str(self._folder / "venv")],
            pip,
        ):
            done = self.execute(words, user="room", stdin=b"", timeout=1200)
            if not done.ok:
                raise RoomError(f"the plain room could not be made: {done.stderr.strip()[-500:]}")

    def execute(self, argv: Sequence[str], *, user: str, stdin: bytes, timeout: float) -> Completed:
        """Run `argv` with nothing in its environment but PATH."""
        return process.run(argv, env={"PATH": "/usr/bin:/bin"}, stdin=stdin, timeout=timeout)

    def seal(self) -> None:
        """There is no setting of such a room."""

    def attach(self, argv: Sequence[str]) -> int:
        return process.attach(argv, env={"PATH": "/usr/bin:/bin"})

    def died(self) -> str:
        return "" if self._open and self._folder.is_dir() else "it is not open"

    def close(self) -> None:
        self._open = False
        remove_tree(self._temporary)  # not what the link says: the room could write that
        remove_tree(self._folder)


def sweep(scratch: Path) -> None:
    """Remove the folders of runs that are dead."""
    for folder in scratch.iterdir():
        if owner.left_behind(folder.name.rpartition("-")[0]):
            link = folder / _LINK
            if link.is_symlink() and _TEMPORARY.fullmatch(str(link.readlink())):
                remove_tree(link.readlink())
            remove_tree(folder)
