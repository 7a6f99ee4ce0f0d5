"""A room: a clean machine in which a cell is installed and its gates run.

One class for every engine. A room holds nothing of this machine but what its
specification names; it has no network, no added capability, a bounded number of
processes and bounded memory (what a sandbox or a plain room lacks of this is in
its facts). Entering it proves that it is the system it was declared to be, and that
the build tree cannot be reached. Leaving the
context removes it, on an exception and on Ctrl-C too; rooms of runs that died
are swept when the next one opens.
"""

from __future__ import annotations

import base64
import io
import os
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Protocol

import msgspec

from qualify import bare
from qualify.container import OPEN_BYTES, Apart, Container
from qualify.engine import Engine, RoomKind
from qualify.errors import RoomError
from qualify.images import PLAIN, Setting
from qualify.mounts import host_location, parts, views
from qualify.plain import Plain
from qualify.process import Completed
from qualify.sandbox import Plan, Sandbox

WORK = "/home/room"
PYTHON = "/opt/venv/bin/python"
PROOF_SECONDS = 600
"""For a question that takes a second, on a machine that is not busy."""
ENVIRONMENT = {
    "PATH": "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": WORK,
    "LANG": "C.UTF-8",
    "USER": "room",
}

ASK_VERSIONS = """\
import platform
from importlib import metadata
print("Python", platform.python_version())
print("torch", metadata.version("torch"))
"""
"""Without importing torch: what it is called is asked here, whether it works by the gates."""


class RoomFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says about a room. Known before the room is opened, and proved by entering it.

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
    glibc: str = ""
    """Version of the C library; empty in records of before it was written down."""


class RoomSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to open a room. `digest` identifies it in a gate's key.

    `hidden` are folders of this machine that nothing in the room may reach.
    `sandbox`, `interpreter` and `wheelhouse` serve the rooms without an engine.
    """

    engine: Engine
    facts: RoomFacts
    digest: str
    hidden: tuple[Path, ...]
    work_bytes: int | None = None
    """Bound of the work folder; None for what the disk has."""
    setting: Setting = PLAIN
    devices: tuple[Apart, ...] = ()
    packages: tuple[str, ...] = ()
    """Those that the image declares; none where there is no image."""
    sandbox: Plan | None = None
    interpreter: Path | None = None
    wheelhouse: Path | None = None
    scratch: Path | None = None


class Walls(Protocol):
    """What differs between the kinds of room: how a command gets in, and how all of it ends."""

    def start(self) -> None: ...

    def execute(
        self, argv: Sequence[str], *, user: str, stdin: bytes, timeout: float
    ) -> Completed: ...

    def attach(self, argv: Sequence[str]) -> int: ...

    def seal(self) -> None: ...

    def died(self) -> str: ...

    def close(self) -> None: ...


class Room:
    """An open room; made by `open_room`, used as a context manager.

    `python` is the interpreter inside that has torch and the installed wheels;
    `work` is the folder that commands start in and may write to. Both are paths
    inside the room. A room that died raises RoomError from every method.
    """

    def __init__(
        self, spec: RoomSpec, walls: Walls, *, python: str, work: str, temporary: str = "/tmp"
    ) -> None:
        self.spec = spec
        self.python = python
        self.work = work
        self._walls = walls
        self._environment = {**ENVIRONMENT, "HOME": work, "TMPDIR": temporary}
        if spec.setting.user != PLAIN.user:
            del self._environment["USER"]
        if python != PYTHON:  # a plain room's paths are the machine's
            self._environment["PATH"] = f"{posixpath.dirname(python)}:/usr/bin:/bin"

    @property
    def facts(self) -> RoomFacts:
        return self.spec.facts

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
        """Run `argv` inside. `user` is "room" (the setting's) or "root" (to install).

        The environment is clean: PATH, HOME, LANG, TMPDIR, USER and `env`, nothing
        else. After `timeout` seconds the command is ended and `timed_out` is true.
        `Completed.argv` is what was asked for.
        """
        if reason := self._walls.died():
            raise RoomError(f"room {self.facts.name} is dead: {reason}")
        clean = self._clean(env or {}, cwd or "")
        done = self._walls.execute([*clean, *argv], user=user, stdin=stdin, timeout=timeout)
        if reason := self._walls.died():
            raise RoomError(f"room {self.facts.name} died while {argv[0]} ran: {reason}")
        return msgspec.structs.replace(done, argv=tuple(argv))

    def shell(self, *, cwd: str) -> int:
        """A shell inside on this terminal, as the unprivileged user; returns its status."""
        more = {"TERM": os.environ.get("TERM", "dumb"), "PS1": f"{self.facts.name}:\\w$ "}
        return self._walls.attach([*self._clean(more, cwd), "/bin/bash", "--norc", "-i"])

    def _clean(self, env: Mapping[str, str], cwd: str) -> list[str]:
        """What stands before a command so that it has a clean environment."""
        pairs = {**self._environment, **env}
        words = ["/usr/bin/env", "-i", "-C", self._inside(cwd)]
        return [*words, *(f"{name}={value}" for name, value in pairs.items())]

    def install(self, wheels: Sequence[Path], *, timeout: float = 300) -> Completed:
        """pip install --no-index the wheels into the room's environment, from source never.

        Returns what pip said, also when it failed: that is a finding about the wheels.
        """
        folder = posixpath.join(self.work, "wheels")
        for wheel in wheels:
            self.put(wheel, folder)
        words = [self.python, "-I", "-m", "pip", "install", "--no-index", "--only-binary=:all:"]
        words += ["--disable-pip-version-check", "--no-cache-dir", "--root-user-action=ignore"]
        names = [posixpath.join(folder, wheel.name) for wheel in wheels]
        # A plain room has this machine's /etc.
        env = {"PIP_CONFIG_FILE": os.devnull}
        return self.run([*words, *names], timeout=timeout, user="root", env=env)

    def seal(self) -> None:
        """What a read-only room becomes once all is installed: its work folder is empty then."""
        self._walls.seal()

    def put(self, source: Path, target: str = "") -> str:
        """Copy a file or folder into the folder `target` (relative to `work`, or absolute).

        Returns its path inside. The copy belongs to the room's user.
        """
        folder = self._inside(target)
        made = self.run(["mkdir", "-p", folder], timeout=60)
        if made.ok:
            words = ["tar", "-x", "-f", "-", "-C", folder, "--no-same-owner"]
            made = self.run(words, timeout=600, stdin=_archive(source))
        if not made.ok:
            raise RoomError(
                f"could not copy {source.name} into room {self.facts.name}: {made.stderr.strip()}"
            )
        return posixpath.join(folder, source.name)

    def get(self, path: str) -> bytes:
        """The bytes of a file inside (relative to `work`, or absolute)."""
        done = self.run(["base64", "-w0", self._inside(path)], timeout=600)
        if not done.ok:
            raise RoomError(
                f"could not read {path} in room {self.facts.name}: {done.stderr.strip()}"
            )
        return base64.b64decode(done.stdout)

    def _inside(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.work, path))

    def _prove_declared(self) -> None:
        """Raise RoomError if system, Python or torch inside are not those that the facts say.

        A room whose facts name no torch is a bare one: nothing of it is installed there.
        """
        facts = self.facts
        ask = '. /etc/os-release; echo "${ID:-linux}"; echo "${VERSION_ID:-$VERSION_CODENAME}"'
        ask += "; getconf GNU_LIBC_VERSION"
        self._prove(
            "the system",
            [facts.os_id, facts.os_version, f"glibc {facts.glibc}"],
            ["sh", "-c", ask],
            mend="Mend its entry in containers/images.toml"
            if facts.image
            else "Run again: this machine's system was changed meanwhile",
        )
        if facts.torch:
            self._prove(
                "the installation",
                [f"Python {facts.python}", f"torch {facts.torch}"],
                [self.python, "-I", "-c", ASK_VERSIONS],
                mend="Remove the room's image, or the cache that it was made from, and run again",
            )

    def _prove(self, what: str, declared: list[str], argv: Sequence[str], *, mend: str) -> None:
        done = self._asked(f"{what} that it has", argv)
        if done.stdout.splitlines() != declared:
            raise RoomError(
                f"room {self.facts.name} is not {what} that it is declared to be",
                expected=", ".join(declared),
                got=", ".join(done.stdout.splitlines()) or done.stderr.strip(),
                mend=mend,
            )

    def _prove_bare(self) -> None:
        """Raise RoomError if the image has other packages than it declares with what those need, or
        files that no package and no layer of ours brought."""
        asked = self._asked("the packages that it has", bare.PACKAGES)
        if not asked.ok:
            self._refuse_image("dpkg's list of packages", asked.stderr.strip()[-300:])
        missing, more = bare.compare(asked.stdout, self.spec.packages)
        if missing:
            self._refuse_image("the packages that it declares", f"none of {', '.join(missing)}")
        if more:
            self._refuse_image("what it declares, and what that needs", ", ".join(more[:5]))
        asks = [["sh", "-c", bare.FILES.format(work=WORK)]]
        if self.facts.torch:
            venv = posixpath.dirname(posixpath.dirname(PYTHON))
            asks.append([self.python, "-I", "-S", "-c", bare.VENV, venv])
        for words in asks:
            found = self._asked("the files that it has", words, user="root")
            if not found.ok or found.stdout.strip():
                said = ", ".join(found.stdout.split()[:5]) or found.stderr.strip()[-300:]
                self._refuse_image("nothing beside its packages", said)

    def _asked(self, what: str, argv: Sequence[str], user: str = "room") -> Completed:
        """What a room says of itself. One that is only slow is not told to be another."""
        done = self.run(argv, timeout=PROOF_SECONDS, user=user)
        if done.timed_out:
            raise RoomError(
                f"room {self.facts.name} did not say {what}",
                expected=f"an answer within {PROOF_SECONDS} s",
                got="none",
                mend="Run again when this machine is less busy",
            )
        return done

    def _refuse_image(self, expected: str, got: str) -> None:
        raise RoomError(
            f"room {self.facts.name} is not the image that was declared",
            expected=expected,
            got=got,
            mend="Remove its image, and run again",
        )

    def _prove_clean(self) -> None:
        """Raise RoomError if a hidden folder can be seen, or a part of it, under its own path or
        another."""
        asked = self._asked("the mounts that it has", ["cat", "/proc/self/mountinfo"])
        if not asked.ok:
            raise RoomError(f"room {self.facts.name} has no mount table: {asked.stderr.strip()}")
        mounts = asked.stdout
        for folder in filter(Path.is_dir, self.spec.hidden):
            device, inner = host_location(folder)
            # A sandbox has its interpreter from the cache, which may lie in the checkout.
            for place in parts(mounts, device, inner) if self.spec.engine.has_images else ():
                self._refuse_clean(folder, place)
            for place in sorted({str(folder), *views(mounts, device, inner)}):
                # A probe that is really there outside: what the folder holds, not its name alone.
                for probe in sorted(path.name for path in folder.iterdir())[:3]:
                    seen = self._asked(
                        "what it can reach", ["test", "-e", posixpath.join(place, probe)]
                    )
                    if seen.ok and (place != str(folder) or self._same(folder / probe)):
                        self._refuse_clean(folder, place)

    def _refuse_clean(self, folder: Path, place: str) -> NoReturn:
        raise RoomError(
            f"room {self.facts.name} is not clean",
            expected=f"{folder} out of reach",
            got=f"it, or something of it, is at {place}",
        )

    def _same(self, path: Path) -> bool:
        """Whether `path` inside is the very file that it is outside, by device and inode."""
        there = self._asked("what it can reach", ["stat", "-c", "%d:%i", str(path)]).stdout.strip()
        here = path.stat()
        return there == f"{here.st_dev}:{here.st_ino}"

    def __enter__(self) -> Room:
        try:
            self._walls.start()
            self._prove_declared()
            if self.spec.engine.kind is not RoomKind.PLAIN:
                self._prove_clean()
            if self.spec.packages:
                self._prove_bare()
        except BaseException:
            self._walls.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._walls.close()


def open_room(spec: RoomSpec) -> Room:
    """A fresh room for `spec`, not started before it is entered."""
    match spec.engine.kind:
        case RoomKind.DOCKER | RoomKind.PODMAN:
            # A tmpfs takes the mode of a folder that is there already, so it gets one of its own.
            bound = spec.work_bytes
            if bound is None and (spec.setting.user != PLAIN.user or spec.setting.read_only):
                bound = OPEN_BYTES
            work = WORK if bound is None else f"{WORK}/bounded"
            walls: Walls = Container(
                spec.engine,
                spec.facts.image,
                work=work,
                work_bytes=bound,
                setting=spec.setting,
                devices=spec.devices,
            )
            return Room(spec, walls, python=PYTHON, work=work)
        case RoomKind.SANDBOX:
            assert spec.sandbox is not None
            size = spec.work_bytes or spec.sandbox.size
            walls = Sandbox(msgspec.structs.replace(spec.sandbox, size=size))
        case RoomKind.PLAIN:
            assert spec.interpreter and spec.wheelhouse and spec.scratch
            plain = Plain(spec.interpreter, spec.wheelhouse, spec.scratch)
            return Room(
                spec, plain, python=plain.python, work=plain.work, temporary=plain.temporary
            )
    return Room(spec, walls, python=PYTHON, work=WORK)


def _archive(source: Path) -> bytes:
    """`source` as a tar that holds no owner, no umask and no cache of compiled Python."""

    def clean(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if posixpath.basename(member.name) == "__pycache__":
            return None
        member.uid = member.gid = 0
        # The room's installer is root without capabilities: it reads only what all may read.
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        member.uname = member.gname = ""
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(source, arcname=source.name, filter=clean)
    return buffer.getvalue()
