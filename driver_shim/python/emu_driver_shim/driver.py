"""libemudrv through ctypes: as much of emu/driver.h as the tools of this package use.

A test compiles the header and compares every offset and size with what stands here.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterator
from ctypes import (
    CFUNCTYPE,
    POINTER,
    byref,
    c_char,
    c_char_p,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

from emu_driver_shim import interface_version, library_path

NO_SLOT = 0xFFFFFFFF
CHUNK_BYTES = 65536
EVENT_BATCH = 256
MOST_FAULTS = 64
ANY_QUEUE = 0xFFFFFFFF


class CError(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("status", c_int32),
        ("scope", c_int32),
        ("queue", c_uint32),
        ("command", c_uint64),
        ("address", c_uint64),
        ("program", c_char * 64),
        ("cause", c_char * 384),
        ("mend", c_char * 256),
    ]


class CDeviceInfo(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("index", c_uint32),
        ("name", c_char * 64),
        ("uuid", c_char * 40),
        ("stepping", c_char * 8),
        ("firmware", c_char * 32),
        ("driver", c_char * 32),
        ("interface_version", c_uint32),
        ("cores", c_uint32),
        ("max_lanes", c_uint32),
        ("host_threads", c_uint32),
        ("memory_bytes", c_uint64),
        ("page_bytes", c_uint64),
        ("clock_hertz", c_uint64),
        ("is_private", c_int32),
        ("emud_pid", c_int32),
        ("node", c_char * 256),
    ]


class CFirmwareSlot(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("state", c_uint32),
        ("minimum_interface", c_uint32),
        ("rollback_index", c_uint32),
        ("version", c_char * 32),
        ("digest", c_char * 68),
        ("bytes", c_uint32),
        ("cause", c_char * 160),
    ]


class CFirmwareInfo(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("active", c_uint32),
        ("pending", c_uint32),
        ("previous", c_uint32),
        ("minimum_rollback_index", c_uint32),
        ("is_persistent", c_int32),
        ("version", c_char * 32),
        ("slots", CFirmwareSlot * 2),
    ]


class CEvent(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("kind", c_uint32),
        ("sequence", c_uint64),
        ("ticks", c_uint64),
        ("nanoseconds", c_uint64),
        ("context", c_uint64),
        ("command", c_uint64),
        ("queue", c_uint32),
        ("process", c_int32),
        ("status", c_int32),
        ("scope", c_int32),
        ("text", c_char * 160),
    ]


class CFault(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("kind", c_uint32),
        ("number", c_uint64),
        ("process", c_int32),
        ("queue", c_uint32),
        ("command", c_uint32),
        ("factor", c_uint32),
        ("skip", c_uint64),
        ("times", c_uint64),
        ("address", c_uint64),
        ("struck", c_uint64),
    ]


class CLinkInfo(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("index", c_uint32),
        ("device", c_uint32 * 2),
        ("is_up", c_int32),
        ("reserved", c_uint32),
        ("bytes_per_tick", c_uint64),
        ("latency_ticks", c_uint64),
        ("errors", c_uint64),
        ("copies", c_uint64 * 2),
        ("bytes", c_uint64 * 2),
        ("busy_ticks", c_uint64 * 2),
    ]


def _call(*arguments: Any) -> Any:
    return CFUNCTYPE(c_int32, *arguments)


# Those that nothing here calls are pointers.
_ENTRIES: dict[str, Any] = {
    "last_error": CFUNCTYPE(None, POINTER(CError)),
    "status_name": CFUNCTYPE(c_char_p, c_int32),
    "device_count": _call(POINTER(c_uint32)),
    "device_open": _call(c_uint32, POINTER(c_void_p)),
    "device_close": CFUNCTYPE(None, c_void_p),
    "device_info": _call(c_void_p, POINTER(CDeviceInfo)),
    "firmware_info": _call(c_void_p, POINTER(CFirmwareInfo)),
    "firmware_write": _call(c_void_p, c_uint64, c_uint64, c_char_p, c_size_t),
    "firmware_activate": _call(c_void_p),
    "firmware_rollback": _call(c_void_p),
    "device_reset": _call(c_void_p),
    "event_read": _call(
        c_void_p, c_uint64, POINTER(CEvent), c_size_t, POINTER(c_size_t), POINTER(c_uint64)
    ),
    "fault_inject": _call(c_void_p, POINTER(CFault), POINTER(c_uint64)),
    "fault_clear": _call(c_void_p, c_uint64),
    "fault_list": _call(c_void_p, POINTER(CFault), c_size_t, POINTER(c_size_t)),
    "link_info": _call(c_void_p, c_uint32, POINTER(CLinkInfo)),
    "link_set_up": _call(c_void_p, c_uint32, c_int32),
}
_ORDER = """
    last_error status_name
    device_count device_open device_close device_info device_telemetry
    context_create context_destroy memory_alloc memory_free memory_info host_alloc host_free
    assemble disassemble buffer_release program_load program_unload
    queue_create queue_destroy queue_id queue_launch queue_copy_to_device queue_copy_from_device
    queue_copy_on_device queue_fill queue_wait queue_completed queue_synchronize
    activity_enable activity_read queue_timestamp
    power_mode_info device_set_power_mode
    firmware_info firmware_write firmware_activate firmware_rollback device_reset event_read
    queue_reset fault_inject fault_clear fault_list
    queue_cancel
    fence_create fence_export fence_import fence_destroy fence_value fence_signal fence_synchronize
    queue_signal_fence queue_wait_fence
    link_info link_set_up queue_copy_peer
    memory_protect
"""


class CApi(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("version", c_uint32),
        *((name, _ENTRIES.get(name, c_void_p)) for name in _ORDER.split()),
    ]


class Number(enum.IntEnum):
    """An enumeration of the driver interface. A newer device, which may be met, has numbers that
    are not here: they stand for themselves."""

    @classmethod
    def _missing_(cls, value: object) -> Number | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"NUMBER_{value}", value
        return unknown


class DriverError(Exception):
    """What the driver refused or could not do: its status, the cause and the mend."""

    def __init__(self, status: str, cause: str, mend: str) -> None:
        self.status, self.cause, self.mend = status, cause, mend
        super().__init__(f"{cause}; {mend}" if mend else cause)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def load() -> CApi:
    """The table of this package's library. Raises DriverError when it does not load."""
    path = library_path()
    mend = "reinstall emu-driver-shim"
    try:
        get_api = ctypes.CDLL(str(path)).emu_driver_get_api
        major, minor = interface_version()
    except (OSError, AttributeError, ValueError) as error:
        raise DriverError("NO_DRIVER", f"{path} cannot be used: {error}", mend) from error
    get_api.restype = POINTER(CApi)
    get_api.argtypes = [c_uint32, POINTER(CError)]
    refusal = CError(size=ctypes.sizeof(CError))
    found = get_api(major * 1000 + minor, byref(refusal))
    if not found:
        raise DriverError("VERSION", _text(refusal.cause), _text(refusal.mend))
    api: CApi = found.contents
    return api


class Device:
    """An open device, until `close`. Every method raises DriverError."""

    def __init__(self, index: int) -> None:
        self._api = load()
        self._handle = c_void_p()
        self._call("device_open", index, byref(self._handle), device=False)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._api.device_close(self._handle)

    def _call(self, entry: str, *arguments: object, device: bool = True) -> None:
        before = (self._handle,) if device else ()
        status = getattr(self._api, entry)(*before, *arguments)
        if status != 0:
            error = CError(size=ctypes.sizeof(CError))
            self._api.last_error(byref(error))
            name = _text(self._api.status_name(status))
            raise DriverError(name, _text(error.cause), _text(error.mend))

    def info(self) -> CDeviceInfo:
        raw = CDeviceInfo(size=ctypes.sizeof(CDeviceInfo))
        self._call("device_info", byref(raw))
        return raw

    def firmware(self) -> CFirmwareInfo:
        raw = CFirmwareInfo(size=ctypes.sizeof(CFirmwareInfo))
        self._call("firmware_info", byref(raw))
        return raw

    def write_firmware(self, image: bytes) -> None:
        for offset in range(0, len(image), CHUNK_BYTES):
            chunk = image[offset : offset + CHUNK_BYTES]
            self._call("firmware_write", len(image), offset, chunk, len(chunk))

    def activate(self) -> None:
        self._call("firmware_activate")

    def rollback(self) -> None:
        self._call("firmware_rollback")

    def reset(self) -> None:
        self._call("device_reset")

    def inject(self, fault: CFault) -> int:
        """The number of the injection."""
        fault.size = ctypes.sizeof(CFault)
        number = c_uint64()
        self._call("fault_inject", byref(fault), byref(number))
        return number.value

    def clear_faults(self, number: int) -> None:
        """0 clears all."""
        self._call("fault_clear", number)

    def faults(self) -> list[CFault]:
        room = (CFault * MOST_FAULTS)()
        count = c_size_t()
        self._call("fault_list", room, MOST_FAULTS, byref(count))
        return list(room[: count.value])

    def links(self) -> list[CLinkInfo]:
        """Those between the devices of this one's device process."""
        links: list[CLinkInfo] = []
        while True:
            raw = CLinkInfo(size=ctypes.sizeof(CLinkInfo))
            try:
                self._call("link_info", len(links), byref(raw))
            except DriverError as error:
                if error.status == "INVALID_ARGUMENT":  # past the last one
                    return links
                raise
            links.append(raw)

    def set_link_up(self, index: int, up: bool) -> None:
        self._call("link_set_up", index, int(up))

    def events(self) -> tuple[list[CEvent], int]:
        """All that the log has, oldest first, and how many were dropped from it."""
        events: list[CEvent] = []
        lost = 0
        for batch, dropped in self._batches():
            events += batch
            lost += dropped
        return events, lost

    def _batches(self) -> Iterator[tuple[list[CEvent], int]]:
        after = 0
        while True:
            room = (CEvent * EVENT_BATCH)()
            count, dropped = c_size_t(), c_uint64()
            self._call("event_read", after, room, EVENT_BATCH, byref(count), byref(dropped))
            yield list(room[: count.value]), dropped.value
            if count.value < EVENT_BATCH:
                return
            after = room[count.value - 1].sequence
