"""A client of the device process without our libraries: what it sends is up to the check.

By its bytes, as driver_shim/src/protocol.h and ring.h had them when interface 1.0 was published:
they stay as they are for as long as the major number does, and what is new comes after them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

HELLO, WELCOME = struct.Struct("<QII"), struct.Struct("<QIi256s")
REQUEST, REPLY = struct.Struct("<IIQQQQ"), struct.Struct("<IiiIQQ384s256s")
COMMAND = struct.Struct("<IIQQQQQIIII")
HELLO_MAGIC = 0x31764F4C48554D45
MOST_BYTES = REPLY.size + 65536
RING_DATA, TAIL = 4096, 64
OK, VERSION, INVALID_ARGUMENT, STALE_HANDLE, NOT_SUPPORTED = 0, 4, 1, 14, 15
DEVICE_INFO, TELEMETRY, CONTEXT_CREATE, CONTEXT_DESTROY, MEMORY_ALLOC = 1, 2, 3, 4, 5
MEMORY_FREE, MEMORY_INFO, HOST_REGISTER, HOST_UNREGISTER, PROGRAM_LOAD = 6, 7, 8, 9, 10
PROGRAM_UNLOAD, QUEUE_CREATE, QUEUE_DESTROY, FAULT, ACTIVITY_ENABLE, ACTIVITY_READ = range(11, 17)
QUEUE_RESET, QUEUE_FAULT = 26, 27
QUEUE_CANCEL, FENCE_CREATE, FENCE_EXPORT, FENCE_IMPORT, FENCE_DESTROY, FENCE_SIGNAL = range(31, 37)
PEER_EXPORT, PEER_IMPORT, MEMORY_PROTECT = 39, 40, 41
LAUNCH, COPY_TO_DEVICE, COPY_FROM_DEVICE, COPY_ON_DEVICE, FILL, WAIT, TIMESTAMP = range(1, 8)
SIGNAL_FENCE, COPY_PEER = 8, 10
PATIENCE_SECONDS = 20


class Answer(NamedTuple):
    status: int
    value: int
    size: int
    cause: str
    payload: bytes
    fds: list[int]


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode(errors="replace")


class Client:
    """A connection; `status` and `cause` are of the welcome. Descriptors are closed with it."""

    def __init__(self, folder: Path, interface: int) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.fds: list[int] = []
        self.socket.connect(str(folder / "emu0"))
        self.socket.send(HELLO.pack(HELLO_MAGIC, interface, 0))
        _, self.served_as, self.status, cause = WELCOME.unpack(self.socket.recv(WELCOME.size))
        self.cause = _text(cause)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
        for fd in self.fds:
            os.close(fd)

    def ask(
        self,
        kind: int,
        context: int = 0,
        object: int = 0,
        value: int = 0,
        size: int = 0,
        *,
        fd: int | None = None,
    ) -> Answer:
        request = REQUEST.pack(kind, 0, context, object, value, size)
        socket.send_fds(self.socket, [request], [] if fd is None else [fd])
        data, fds, _, _ = socket.recv_fds(self.socket, MOST_BYTES, 4)
        self.fds += fds
        _, status, _, _, got, count, cause, _ = REPLY.unpack(data[: REPLY.size])
        return Answer(status, got, count, _text(cause), data[REPLY.size :], fds)

    def value(self, kind: int, *words: int, fd: int | None = None) -> int:
        """Of an answer that has to be OK."""
        answer = self.ask(kind, *words, fd=fd)
        assert answer.status == OK, answer.cause
        return answer.value

    def memory(self, data: bytes) -> int:
        """A descriptor of host memory that the device process takes, with `data` at its start."""
        fd = os.memfd_create("raw", os.MFD_ALLOW_SEALING)
        self.fds.append(fd)
        os.ftruncate(fd, -(-len(data) // 4096) * 4096)
        os.pwrite(fd, data, 0)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return fd


class Queue:
    """A compute queue's ring."""

    def __init__(self, client: Client, context: int) -> None:
        self.client, self.context = client, context
        made = client.ask(QUEUE_CREATE, context)
        assert made.status == OK, made.cause
        self.id = made.value
        self.ring = mmap.mmap(made.fds[0], RING_DATA + made.size)
        self.doorbell = made.fds[1]
        self.tail = self.commands = 0

    def submit(
        self,
        kind: int,
        target: int = 0,
        source: int = 0,
        offset: int = 0,
        length: int = 0,
        arguments: bytes = b"",
    ) -> None:
        size = -(-(COMMAND.size + len(arguments)) // 64) * 64
        command = COMMAND.pack(kind, size, 0, target, source, offset, length, 1, 1, 1, 0)
        at = RING_DATA + self.tail
        self.ring[at : at + size] = (command + arguments).ljust(size, b"\0")
        self.tail += size
        self.commands += 1
        self.ring[TAIL : TAIL + 8] = self.tail.to_bytes(8, "little")
        os.write(self.doorbell, (1).to_bytes(8, "little"))

    def ends(self) -> bool:
        """Whether all commands were done; else their context was lost."""
        limit = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < limit:
            completed, _, state = struct.unpack_from("<QQI", self.ring)
            if state or completed >= self.commands:
                return not state
            time.sleep(0.001)
        raise TimeoutError(f"{completed} of {self.commands} commands in {PATIENCE_SECONDS} s")

    def fault(self) -> tuple[int, str]:
        """Status and cause of what ended the context."""
        raw = self.client.ask(FAULT, self.context).payload
        return struct.unpack_from("<i", raw, 4)[0], _text(raw[104:488])
