"""The embedded default room: namespaces of this machine's kernel, no engine needed.

The room's root is a tmpfs that holds only what is on the allow-list below: the
system's programs and libraries (read-only), the interpreter asked for, and the
torch layer with an overlay for writes. Home folders and the build tree are not
there. Commands run without capabilities and cannot gain any. All of it ends when
this process ends, however it ends.

What it does not give: another OS, a bound on memory or processes, and a second
user (uid 0 inside is this user outside). A record says so.
"""

from __future__ import annotations

import functools
import os
import platform
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from qualify import process
from qualify.errors import RoomError
from qualify.process import Completed

START_SECONDS = 20
ISOLATION = (
    "user, mount, process, network, IPC, host-name and cgroup namespaces",
    "root is an allow-list of this machine's system folders, read-only",
    "no capabilities, no new privileges, loopback only",
    "memory and process count are not bounded; uid 0 inside is the caller outside",
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_CPU_FACTS = "/sys/devices/system/cpu"
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/home/room:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost room\n::1 localhost\n",
    "/etc/hostname": "room\n",
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What `sandbox_init` builds the root from; its docstring explains the fields."""

    size: int
    shm: int
    binds: tuple[tuple[str, str, bool], ...]
    overlays: tuple[tuple[str, str], ...]
    masks: tuple[str, ...]
    files: dict[str, str]
    links: dict[str, str]
    folders: tuple[str, ...]


def plan(
    *,
    binds: Sequence[tuple[Path, str, bool]] = (),
    overlays: Sequence[tuple[Path, str]] = (),
    hidden: Sequence[Path] = (),
    size: int = 4 * 2**30,
    shm: int = 2**30,
) -> Plan:
    """The allow-list of this machine, and what a room adds to it.

    `hidden` folders are masked where they lie inside an allowed folder, as
    /usr/local and /usr/src always are: they hold what this machine's owner put there.
    """
    present = [Path(name) for name in _SYSTEM if Path(name).exists()]
    system = [(str(path), str(path), False) for path in present if not path.is_symlink()]
    system += [
        (str(Path(name).resolve()), name, False)
        for name in (*_ETC, _CPU_FACTS)
        if Path(name).exists()
    ]
    return Plan(
        size=size,
        shm=shm,
        binds=(
            *system,
            *((str(source.resolve()), target, writable) for source, target, writable in binds),
        ),
        overlays=tuple((str(source.resolve()), target) for source, target in overlays),
        masks=("/usr/local", "/usr/src", *(str(path) for path in hidden)),
        files=_FILES,
        links={str(path): str(path.readlink()) for path in present if path.is_symlink()},
        folders=("home/room",),
    )


@functools.cache
def refusal() -> str:
    """Why this machine does not give namespaces, or "". Tries, because no setting tells."""
    if platform.system() != "Linux":
        return f"{platform.system()} has no namespaces"
    room = Sandbox(plan(size=2**20, shm=2**20))
    try:
        room.start()
        done = room.execute(["/usr/bin/true"], user="room", stdin=b"", timeout=START_SECONDS)
        return "" if done.ok else done.stderr.strip() or f"status {done.status}"
    except RoomError as error:
        return str(error)
    finally:
        room.close()


class Sandbox:
    """The walls of one sandbox room."""

    def __init__(self, layout: Plan) -> None:
        self._plan = layout
        self._holder: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def start(self) -> None:
        """Make the namespaces and the root. Raises RoomError with the kernel's reason."""
        program = Path(__file__).with_name("sandbox_init.py")
        holder = process.start([sys.executable, "-I", "-S", "-B", program])
        self._holder = holder
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.write(msgspec.json.encode(self._plan) + b"\n")
        holder.stdin.flush()
        ready, _, _ = select.select([holder.stdout], [], [], START_SECONDS)
        line = holder.stdout.readline() if ready else b""
        answer = msgspec.json.decode(line, type=dict[str, int | str]) if line else {}
        if "pid" not in answer:
            self.close()
            reason = answer.get("error", "no answer from its first process")
            raise RoomError(f"the sandbox did not start: {reason}")
        self._pid = int(answer["pid"])

    def execute(self, argv: Sequence[str], *, user: str, stdin: bytes, timeout: float) -> Completed:
        """Run `argv` inside; `user` makes no difference, see the module's docstring."""
        env = {"PATH": os.defpath}
        return process.run(self._entered(argv), env=env, stdin=stdin, timeout=timeout)

    def seal(self) -> None:
        """There is no setting of such a room."""

    def attach(self, argv: Sequence[str]) -> int:
        return process.attach(self._entered(argv), env={"PATH": os.defpath})

    def _entered(self, argv: Sequence[str]) -> list[str]:
        enter = ["nsenter", f"--target={self._pid}", "--preserve-credentials"]
        enter += [f"--{name}" for name in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup")]
        drop = ["/usr/bin/setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        return [*enter, "--", *drop, *argv]

    def died(self) -> str:
        """Why the room is dead, or ""."""
        if self._holder is None:
            return "it is not open"
        status = self._holder.poll()
        return "" if status is None else f"its first process ended with status {status}"

    def close(self) -> None:
        """End every process of the room and drop its mounts; waits until they are gone."""
        holder, self._holder = self._holder, None
        if holder is None:
            return
        for pipe in (holder.stdin, holder.stdout, holder.stderr):
            if pipe is not None:
                pipe.close()
        try:
            holder.wait(timeout=5)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait()
