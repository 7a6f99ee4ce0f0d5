"""The driver interface below the runtime: contexts, queues, fences and copies between devices.

A check's child process speaks it; what emu_driver_shim.driver has is used as it is.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any

from emu_driver_shim import driver

SOON_NS = 20_000_000_000  # a device that hangs fails the check
COMPUTE, COPY = 0, 1
ALL_RECORDS = 1024
FENCE_MAY_SIGNAL = 1
CANCEL_RUNNING = 1
READ, WRITE = 1, 2


class Activity(ctypes.Structure):
    _fields_ = (
        ("size", c_uint32), ("kind", c_uint32), ("queue", c_uint32), ("status", c_int32),
        ("command", c_uint64), ("correlation", c_uint64), ("start_ticks", c_uint64),
        ("end_ticks", c_uint64), ("start_ns", c_uint64), ("end_ns", c_uint64), ("bytes", c_uint64),
        ("grid", c_uint32 * 3), ("program", ctypes.c_char * 64),
    )  # fmt: skip


class Buffer(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("bytes", ctypes.c_size_t))


class Token(ctypes.Structure):
    _fields_ = (("part", c_uint64 * 2),)

    def text(self) -> str:
        return f"{self.part[0]:x}.{self.part[1]:x}"

    @classmethod
    def parse(cls, text: str) -> Token:
        return cls((c_uint64 * 2)(*(int(part, 16) for part in text.split("."))))


def call(name: str, *arguments: Any, may_time_out: bool = False) -> bool:
    """An entry of the table; whole numbers go as 64 bits. False: the time was up."""
    api = driver.load()
    entry = ctypes.cast(getattr(api, name), ctypes.CFUNCTYPE(c_int32))
    status = entry(*(c_uint64(a) if isinstance(a, int) else a for a in arguments))
    if status == 0:
        return True
    error = driver.CError(size=ctypes.sizeof(driver.CError))
    api.last_error(byref(error))
    code = api.status_name(status).decode()
    if code == "TIMEOUT" and may_time_out:
        return False
    raise driver.DriverError(code, error.cause.decode(), error.mend.decode())


def made(name: str, *arguments: Any) -> c_void_p:
    handle = c_void_p()
    call(name, *arguments, byref(handle))
    return handle


class Context:
    """A context on a device of its own."""

    def __init__(self, index: int = 0) -> None:
        self.device = driver.Device(index)
        self.handle = made("context_create", self.device._handle)
        call("activity_enable", self.handle, 1)

    def alloc(self, size: int) -> int:
        address = c_uint64()
        call("memory_alloc", self.handle, size, byref(address))
        return address.value

    def protect(self, address: int, size: int, access: int) -> None:
        call("memory_protect", self.handle, address, size, access)

    def queue(self, kind: int = COMPUTE, priority: int = 0) -> Queue:
        return Queue(self, made("queue_create", self.handle, kind, priority % 2**32))

    def program(self, text: str) -> c_void_p:
        binary = Buffer()
        call("assemble", text.encode(), len(text), byref(binary))
        try:
            return made("program_load", self.handle, c_void_p(binary.data), binary.bytes)
        finally:
            release = ctypes.cast(driver.load().buffer_release, ctypes.CFUNCTYPE(None, c_void_p))
            release(ctypes.addressof(binary))

    def records(self) -> list[Activity]:
        """Of all commands since the last time."""
        found: list[Activity] = []
        while True:
            room = (Activity * ALL_RECORDS)()
            count, dropped = ctypes.c_size_t(), c_uint64()
            call("activity_read", self.handle, room, ALL_RECORDS, byref(count), byref(dropped))
            assert dropped.value == 0
            found += room[: count.value]
            if count.value < ALL_RECORDS:
                return found

    def fence(self, token: Token | None = None) -> Fence:
        if token is None:
            return Fence(made("fence_create", self.handle))
        return Fence(made("fence_import", self.handle, byref(token)))

    def read(self, address: int, size: int) -> bytes:
        pointer = made("host_alloc", self.handle, size)
        queue = self.queue(COPY)
        queue.submit("queue_copy_from_device", pointer, address, size)
        queue.synchronize()
        data = ctypes.string_at(pointer.value or 0, size)
        call("host_free", self.handle, pointer)
        queue.destroy()
        return data

    def destroy(self) -> None:
        call("context_destroy", self.handle)


class Queue:
    def __init__(self, context: Context, handle: c_void_p) -> None:
        self.context, self.handle, self.last = context, handle, 0
        entry = ctypes.cast(driver.load().queue_id, ctypes.CFUNCTYPE(c_uint32, c_void_p))
        self.number = entry(handle)

    def submit(self, entry: str, *arguments: Any, correlation: int = 0) -> int:
        """The number of the command."""
        sequence = c_uint64()
        call(entry, self.handle, *arguments, correlation, byref(sequence))
        self.last = sequence.value
        return self.last

    def launch(self, program: c_void_p, arguments: bytes = b"") -> int:
        grid = (c_uint32 * 3)(1, 1, 1)
        return self.submit("queue_launch", program, grid, arguments, len(arguments))

    def fill(self, address: int, value: int, size: int) -> int:
        return self.submit("queue_fill", address, value, size)

    def wait_queue(self, other: Queue, value: int) -> None:
        sequence = c_uint64()
        call("queue_wait", self.handle, other.handle, value, byref(sequence))
        self.last = sequence.value

    def wait(self, fence: Fence, value: int) -> int:
        return self.submit("queue_wait_fence", fence.handle, value)

    def signal(self, fence: Fence, value: int) -> int:
        return self.submit("queue_signal_fence", fence.handle, value)

    def copy_peer(self, target: Context, to: int, source: Context, address: int, size: int) -> int:
        return self.submit("queue_copy_peer", target.handle, to, source.handle, address, size)

    def cancel(self, start: int, running: bool = False) -> int:
        """The first command that is passed over."""
        first = c_uint64()
        call("queue_cancel", self.handle, start, CANCEL_RUNNING if running else 0, byref(first))
        return first.value

    def synchronize(self, value: int | None = None, nanoseconds: int = SOON_NS) -> bool:
        last = self.last if value is None else value
        return call("queue_synchronize", self.handle, last, nanoseconds, may_time_out=True)

    def destroy(self) -> None:
        call("queue_destroy", self.handle)


class Fence:
    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle

    def token(self, flags: int = 0) -> Token:
        token = Token()
        call("fence_export", self.handle, flags, byref(token))
        return token

    def signal(self, value: int) -> None:
        call("fence_signal", self.handle, value)

    def synchronize(self, value: int, nanoseconds: int = SOON_NS) -> bool:
        return call("fence_synchronize", self.handle, value, nanoseconds, may_time_out=True)
