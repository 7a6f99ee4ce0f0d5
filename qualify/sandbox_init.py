"""First process of a namespace sandbox; run as a program, with the standard library only.

Reads one JSON plan from standard input, enters new user, mount, process, network,
IPC and host-name namespaces, builds a root folder that holds only what the plan
lists, and prints one line: `{"pid": N}` (the process that holds the namespaces)
or `{"error": "..."}`. It then lives until its standard input ends, which also
happens when the parent dies; with it goes every process and mount of the sandbox.

Plan: `size` (bytes of the root, a tmpfs), `shm` (bytes of /dev/shm), `binds`
[[source, target, writable]], `overlays` [[source, target]], `masks` [path],
`files` {path: text}, `links` {path: target}, `folders` [path].
Needs Linux 5.12 (mount_setattr, overlayfs in user namespaces).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

CLONE_ALL = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID; the network has its own call."""
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR = 442
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags))
    check(libc.mount(*arguments, data.encode()), f"mount {kind or 'bind'} {source} on {target}")


def restrict(target: str, *, readonly: bool) -> None:
    """Give a mount and all below it `nosuid`, and `ro` where asked."""
    bits = MOUNT_ATTR_NOSUID | (MOUNT_ATTR_RDONLY if readonly else 0)
    attributes = (ctypes.c_uint64 * 4)(bits, 0, 0, 0)
    result = libc.syscall(
        SYS_MOUNT_SETATTR, -100, target.encode(), AT_RECURSIVE, ctypes.byref(attributes), 32
    )
    check(result, f"make {target} read-only")


def enter_namespaces() -> None:
    uid, gid = os.geteuid(), os.getegid()
    check(libc.unshare(CLONE_ALL | CLONE_NEWNET), "unshare")
    for path, text in (
        ("/proc/self/setgroups", "deny"),
        ("/proc/self/uid_map", f"0 {uid} 1"),
        ("/proc/self/gid_map", f"0 {gid} 1"),
    ):
        Path(path).write_text(text)


def build_root(plan: dict[str, Any]) -> None:
    """Make the new root and step into it; the old one is gone afterwards.

    A tmpfs over /tmp is the scaffold: after the first pivot the machine's whole
    tree, its /tmp included, is at /old, and the room is put together in /new.
    """
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount("scaffold", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m")
    Path("/tmp/old").mkdir()
    Path("/tmp/new").mkdir()
    pivot("/tmp", "/tmp/old")
    mount("room", "/new", "tmpfs", MS_NOSUID | MS_NODEV, f"size={plan['size']},mode=755")
    for folder in ("dev", "proc", "tmp", "run", "etc", *plan["folders"]):
        Path(f"/new/{folder}").mkdir(parents=True, exist_ok=True)
    Path("/new/tmp").chmod(0o1777)
    for path, text in plan["files"].items():
        file = Path(f"/new{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path, target in plan["links"].items():
        Path(f"/new{path}").symlink_to(target)
    for source, target, writable in plan["binds"]:
        bind(source, target, writable)
    for number, (source, target) in enumerate(plan["overlays"]):
        overlay(source, target, number)
    for name in DEVICES:
        bind(f"/dev/{name}", f"/dev/{name}", True)
    Path("/new/dev/fd").symlink_to("/proc/self/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        Path(f"/new/dev/{name}").symlink_to(f"/proc/self/fd/{number}")
    Path("/new/dev/shm").mkdir()
    mount("shm", "/new/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"size={plan['shm']},mode=1777")
    mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV)
    for path in plan["masks"]:
        if Path(f"/new{path}").is_dir():
            mount("mask", f"/new{path}", "tmpfs", MS_NOSUID | MS_NODEV, "size=0,mode=555")
    os.chdir("/new")
    pivot(".", ".")
    check(libc.umount2(b".", MNT_DETACH), "leave the old root")
    os.chdir("/")


def pivot(new: str, old: str) -> None:
    number = SYS_PIVOT_ROOT[os.uname().machine]
    check(libc.syscall(number, new.encode(), old.encode()), "pivot_root")
    if new != ".":
        os.chdir("/")


def bind(source: str, target: str, writable: bool) -> None:
    inside, outside = Path(f"/new{target}"), Path(f"/old{source}")
    if outside.is_dir():
        inside.mkdir(parents=True, exist_ok=True)
    else:
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.touch()
    mount(str(outside), str(inside), flags=MS_BIND | MS_REC)
    restrict(str(inside), readonly=not writable)


def overlay(source: str, target: str, number: int) -> None:
    """`source`, and what the room writes over it; the writes stay in the room's tmpfs."""
    upper, scratch = f"/new/.layer/{number}/upper", f"/new/.layer/{number}/work"
    for folder in (upper, scratch, f"/new{target}"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir=/old{source},upperdir={upper},workdir={scratch},userxattr"
    mount("layer", f"/new{target}", "overlay", MS_NOSUID | MS_NODEV, options)


def raise_loopback() -> None:
    """A new network namespace has a loopback device that is down; torch.distributed needs it up."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
        with contextlib.suppress(OSError):
            fcntl.ioctl(handle, 0x8914, request)


def hold(ready: int) -> None:
    """Process 1 of the sandbox: reap orphans until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(ready, b"ok")
    os.close(ready)
    while os.read(0, 4096):
        pass


def main() -> None:
    plan = json.loads(sys.stdin.buffer.readline())
    try:
        enter_namespaces()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(reader)
            os.setsid()
            try:
                socket.sethostname("room")
                raise_loopback()
                build_root(plan)
            except OSError as error:
                os.write(writer, str(error).encode())
                os._exit(1)
            hold(writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
    except OSError as error:
        said, child = str(error).encode(), 0
    answer = {"pid": child} if said == b"ok" else {"error": said.decode() or "it died"}
    print(json.dumps(answer), flush=True)
    if child:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
