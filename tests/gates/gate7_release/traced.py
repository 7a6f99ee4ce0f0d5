"""A program that is killed just before its N-th change of files below a folder.

The kernel's tracing (ptrace) stops each of its threads at each call, so what it is written in does
not matter, and nothing happens after the call that it was killed at.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
SYSGOOD, FORK, VFORK, CLONE, EXITKILL = 1, 2, 4, 8, 0x100000
ALL_THREADS = 0x40000000  # __WALL of waitpid
ENTRY = 1
AT_CALL = signal.SIGTRAP | 0x80
PATH_BYTES = 4096
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OPEN = "openat"

Paths = tuple[tuple[int | None, int], ...]
"""Where a call has its paths: the argument that is the folder's descriptor, and the name's."""

AT: dict[str, Paths] = {
    OPEN: ((0, 1),),
    "mkdirat": ((0, 1),),
    "unlinkat": ((0, 1),),
    "symlinkat": ((1, 2),),
    "linkat": ((2, 3),),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
}
OLD: dict[str, Paths] = {
    "rename": ((None, 0), (None, 1)),
    "mkdir": ((None, 0),),
    "rmdir": ((None, 0),),
    "link": ((None, 1),),
    "unlink": ((None, 0),),
    "symlink": ((None, 1),),
}
NUMBERS = {
    "x86_64": {
        **{82: "rename", 83: "mkdir", 84: "rmdir", 86: "link", 87: "unlink", 88: "symlink"},
        **{257: OPEN, 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat"},
        **{266: "symlinkat", 316: "renameat2"},
    },
    "aarch64": {
        **{34: "mkdirat", 35: "unlinkat", 36: "symlinkat", 37: "linkat", 38: "renameat"},
        **{56: OPEN, 276: "renameat2"},
    },
}


class Call(ctypes.Structure):
    """struct ptrace_syscall_info of linux/ptrace.h, as far as the entry of a call fills it."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class Ended(NamedTuple):
    status: int
    """As `subprocess` has it: -9 for one that was killed."""
    changes: int


def run(words: Sequence[str | Path], root: Path, limit: int, env: Mapping[str, str]) -> Ended:
    """Run a program; kill it before its `limit`-th change below `root`; never where that is 0."""
    numbers = NUMBERS[platform.machine()]
    with subprocess.Popen(
        [str(word) for word in words],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_be_traced,
    ) as process:
        try:
            return _follow(process, numbers, root, limit)
        except BaseException:
            process.kill()
            raise


def _follow(
    process: subprocess.Popen[bytes], numbers: Mapping[int, str], root: Path, limit: int
) -> Ended:
    _, status = os.waitpid(process.pid, 0)  # it stops when it has become the program
    options = SYSGOOD | FORK | VFORK | CLONE | EXITKILL
    if not os.WIFSTOPPED(status) or _ptrace(SETOPTIONS, process.pid, 0, options) < 0:
        raise OSError(ctypes.get_errno(), "this machine lets no process trace its own children")
    _ptrace(SYSCALL, process.pid, 0, 0)
    changes = 0
    while True:
        thread, status = os.waitpid(-1, ALL_THREADS)
        if not os.WIFSTOPPED(status):
            if thread != process.pid:
                continue
            process.returncode = os.waitstatus_to_exitcode(status)
            return Ended(process.returncode, changes)
        stopped = os.WSTOPSIG(status)
        if stopped == AT_CALL and _changes(thread, numbers, root):
            changes += 1
            if changes == limit:
                process.kill()
                continue
        ours = stopped in (AT_CALL, signal.SIGTRAP, signal.SIGSTOP)
        _ptrace(SYSCALL, thread, 0, 0 if ours else stopped)


def _changes(thread: int, numbers: Mapping[int, str], root: Path) -> bool:
    call = Call()
    _ptrace(GET_SYSCALL_INFO, thread, ctypes.sizeof(call), ctypes.addressof(call))
    name = numbers.get(call.number) if call.op == ENTRY else None
    if name is None or (name == OPEN and not call.arguments[2] & WRITES):
        return False
    places = AT.get(name) or OLD[name]
    return any(_path(thread, call, *place).is_relative_to(root) for place in places)


def _path(thread: int, call: Call, folder: int | None, name: int) -> Path:
    with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
        memory.seek(call.arguments[name])
        path = Path(os.fsdecode(memory.read(PATH_BYTES).partition(b"\0")[0]))
    descriptor = -1 if folder is None else ctypes.c_int(call.arguments[folder]).value
    at = f"fd/{descriptor}" if descriptor >= 0 else "cwd"
    return path if path.is_absolute() else Path(f"/proc/{thread}/{at}").readlink() / path


def _be_traced() -> None:
    if _ptrace(TRACEME, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "this machine lets no process be traced")


def _ptrace(request: int, thread: int, address: int, data: int) -> int:
    """Below 0 for an error: of a thread that was just killed it is none of anybody's."""
    words = ctypes.c_void_p(address), ctypes.c_void_p(data)
    return int(_libc.ptrace(request, thread, *words))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
