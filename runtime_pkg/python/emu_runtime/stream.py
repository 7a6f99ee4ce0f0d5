"""Streams, events and modules: thin owners of handles of the C interface."""

from __future__ import annotations

import ctypes
from ctypes import byref

from emu_runtime.errors import EmuError
from emu_runtime.library import call, table


class Stream:
    """An order of commands on one device. Destroyed with the object; its work still ends."""

    def __init__(self, device: int, priority: int = 0) -> None:
        self.device = device
        handle = ctypes.c_void_p()
        call("stream_create", device, priority, byref(handle))
        self.handle: int | None = handle.value

    @property
    def id(self) -> int:
        return int(table().stream_id(self.device, self.handle))

    def query(self) -> bool:
        """True when all that was submitted is done."""
        done = ctypes.c_int32()
        call("stream_query", self.device, self.handle, byref(done))
        return bool(done.value)

    def synchronize(self) -> None:
        call("stream_synchronize", self.device, self.handle)

    def wait_event(self, event: Event) -> None:
        """Later commands of this stream start after the event."""
        call("stream_wait_event", self.device, self.handle, event.handle)

    def destroy(self) -> None:
        """Raises StaleHandleError the second time, and after a reset of the device."""
        call("stream_destroy", self.handle)

    def __del__(self) -> None:
        _quietly_destroy("stream_destroy", getattr(self, "handle", None))


class Event:
    """A point on a stream; never recorded, it is done. `timing` is what `elapsed` needs."""

    def __init__(self, device: int, *, timing: bool = False) -> None:
        self.device = device
        handle = ctypes.c_void_p()
        call("event_create", device, int(timing), byref(handle))
        self.handle: int | None = handle.value

    def record(self, stream: Stream | None = None) -> None:
        call("event_record", self.handle, stream.handle if stream else None)

    def query(self) -> bool:
        done = ctypes.c_int32()
        call("event_query", self.handle, byref(done))
        return bool(done.value)

    def synchronize(self) -> None:
        call("event_synchronize", self.handle)

    def elapsed(self, end: Event) -> tuple[float, float]:
        """Milliseconds from this event to `end`: of the device clock, and of the host's."""
        device, host = ctypes.c_double(), ctypes.c_double()
        call("event_elapsed", self.handle, end.handle, byref(device), byref(host))
        return device.value, host.value

    def destroy(self) -> None:
        call("event_destroy", self.handle)

    def __del__(self) -> None:
        _quietly_destroy("event_destroy", getattr(self, "handle", None))


class Module:
    """A program by its text (docs/isa.md): loaded once a process and device, by content."""

    def __init__(self, device: int, text: str) -> None:
        self.device = device
        data = text.encode()
        handle = ctypes.c_void_p()
        call("module_get", device, data, len(data), byref(handle))
        self.handle: int | None = handle.value

    def launch(
        self, grid: tuple[int, int, int], arguments: bytes, stream: Stream | None = None
    ) -> None:
        """Run over a grid of blocks; returns when it is submitted."""
        blocks = (ctypes.c_uint32 * 3)(*grid)
        handle = stream.handle if stream else None
        call("launch", self.device, handle, self.handle, blocks, arguments, len(arguments))


def _quietly_destroy(entry: str, handle: int | None) -> None:
    """For finalizers: the handle may be destroyed or stale, or the runtime shut down."""
    if handle is None:
        return
    try:
        call(entry, handle)
    except (EmuError, TypeError, AttributeError):
        # TypeError and AttributeError: the interpreter is being taken down around us.
        return
