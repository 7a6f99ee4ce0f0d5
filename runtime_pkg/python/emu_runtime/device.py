"""A device: identity, telemetry, counters, memory and copies.

Addresses are of the device and mean nothing to the host. Host data are objects with the buffer
protocol, which go through staging, or `PinnedBuffer`s, which the device reads and writes as they
are.
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any, TypeVar

from emu_runtime import interface
from emu_runtime.errors import EmuError, InvalidArgumentError
from emu_runtime.library import call, last_error, table
from emu_runtime.stream import Stream


@dataclass(frozen=True)
class Properties:
    name: str
    uuid: str
    stepping: str
    firmware: str
    driver: str
    node: str
    is_private: bool
    emud_pid: int
    emud_index: int  # among the devices of its emud
    interface_version: int
    cores: int
    max_lanes: int
    memory_bytes: int
    clock_hertz: int


class Throttle(interface.Number):
    """Why the cores run slower than the power mode says."""

    NONE = 0
    THERMAL = 1
    FAULT = 2  # an injected fault makes commands slow
    TRIP = 3  # nothing runs until the device is reset


class MemoryPressure(interface.Number):
    """How short device memory is, by the thresholds of the machine's specification."""

    NONE = 0
    HIGH = 1
    CRITICAL = 2


@dataclass(frozen=True)
class PowerMode:
    """`clock_hertz` is of the cores; ticks of the device clock last as long in every mode."""

    index: int
    name: str
    clock_hertz: int
    idle_watts: float
    busy_watts: float


@dataclass(frozen=True)
class Telemetry:
    """Of the whole device, all processes. Ticks and counts are since emud started.

    docs/telemetry.md says what each figure means; `emu_runtime.figures` makes shares and rates.
    """

    contexts: int
    queues: int
    power_mode: int
    memory_used_bytes: int
    device_ticks: int
    busy_ticks: int
    commands: int
    launches: int
    faults: int
    bytes_to_device: int
    bytes_from_device: int
    matrix_ticks: int
    vector_ticks: int
    memory_ticks: int
    copy_ticks: int
    ecc_corrected: int
    ecc_uncorrected: int
    clock_hertz: float
    power_watts: float
    temperature_celsius: float
    spent_matrix_ticks: int
    spent_vector_ticks: int
    spent_memory_ticks: int
    spent_control_ticks: int
    spent_copy_ticks: int
    spent_waiting_ticks: int
    spent_idle_ticks: int
    copy_engine_ticks: int
    bytes_on_device: int
    to_device_ticks: int
    from_device_ticks: int
    on_device_ticks: int
    program_bytes: int
    queued_commands: int
    queue_delay_ticks: int
    queue_delay_most_ticks: int
    queue_delay_ns: int
    queue_delay_most_ns: int
    memory_peak_bytes: int
    memory_largest_free_bytes: int
    memory_pressure: int
    throttle: int
    throttled_ticks: int
    clock_changes: int
    emud_start_ns: int


@dataclass(frozen=True)
class Counters:
    """What this process did on the device since it started."""

    launches: int
    copies_to_device: int
    copies_from_device: int
    copies_on_device: int
    bytes_to_device: int
    bytes_from_device: int
    bytes_on_device: int
    module_hits: int
    module_misses: int
    synchronizations: int


@dataclass(frozen=True)
class MemoryStats:
    """Of this process's allocator on the device, in bytes and counts."""

    allocated_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int
    reserved_peak_bytes: int
    allocations: int
    frees: int
    driver_allocations: int
    driver_frees: int
    out_of_memory: int


_Record = TypeVar("_Record", Properties, Telemetry, Counters, MemoryStats, PowerMode)


def _read(
    entry: str, device: int, raw: ctypes.Structure, kind: type[_Record], *which: int
) -> _Record:
    raw.size = ctypes.sizeof(raw)
    call(entry, device, *which, byref(raw))
    values: dict[str, Any] = {}
    for name in kind.__dataclass_fields__:
        value = getattr(raw, name)
        values[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    if kind is Properties:
        values["is_private"] = bool(values["is_private"])
    return kind(**values)


def device_count() -> int:
    """How many devices there are; opens none. With 0, `why_no_device` tells the reason."""
    count = ctypes.c_uint32()
    call("device_count", byref(count))
    return count.value


def why_no_device() -> EmuError | None:
    """Why there is no device, or None if there is one."""
    count = ctypes.c_uint32()
    api = table()
    if api.device_count(byref(count)) == 0 and count.value > 0:
        return None
    return last_error(api)


class PinnedBuffer:
    """Host memory that the device reads and writes itself, until `free`.

    `free` may be called while copies are under way: the memory is not used again before their end.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        pointer = ctypes.c_void_p()
        call("host_alloc", size, byref(pointer))
        self.address: int | None = pointer.value
        self.data = (ctypes.c_ubyte * size).from_address(pointer.value or 0)

    def fill_from(self, data: bytes) -> None:
        """Put `data` at the start; it must fit."""
        if len(data) > self.size:
            raise ValueError(f"expected at most {self.size} bytes, got {len(data)}")
        ctypes.memmove(self.data, data, len(data))

    def free(self) -> None:
        address, self.address = self.address, None
        call("host_free", address)

    def __bytes__(self) -> bytes:
        return bytes(self.data)


class Device:
    """Device `index` of this process. Making the object opens nothing."""

    def __init__(self, index: int = 0) -> None:
        self.index = index

    def properties(self) -> Properties:
        return _read("device_properties", self.index, interface.CDeviceProperties(), Properties)

    def telemetry(self) -> Telemetry:
        return _read("device_telemetry", self.index, interface.CTelemetry(), Telemetry)

    def power_modes(self) -> list[PowerMode]:
        modes: list[PowerMode] = []
        while True:
            raw = interface.CPowerMode()
            try:
                modes.append(_read("power_mode_info", self.index, raw, PowerMode, len(modes)))
            except InvalidArgumentError:
                if not modes:
                    raise
                return modes

    def set_power_mode(self, name: str) -> None:
        """For the whole device, from the next command on. PermissionDeniedError unless this process
        runs as the same user as the device process."""
        modes = self.power_modes()
        for mode in modes:
            if mode.name == name:
                return call("device_set_power_mode", self.index, mode.index)
        known = ", ".join(mode.name for mode in modes)
        raise InvalidArgumentError(f"power mode: expected one of {known}, got {name!r}")

    def counters(self) -> Counters:
        return _read("device_counters", self.index, interface.CCounters(), Counters)

    def memory_stats(self) -> MemoryStats:
        return _read("memory_stats", self.index, interface.CMemoryStats(), MemoryStats)

    def reset_peaks(self) -> None:
        call("memory_reset_peaks", self.index)

    def empty_cache(self) -> None:
        call("memory_empty_cache", self.index)

    def synchronize(self) -> None:
        call("device_synchronize", self.index)

    def reset(self) -> None:
        """Give up this process's context and what runs in it; the next use opens a new one.

        What was made before is stale: using it raises StaleHandleError, and freeing memory does
        nothing.
        """
        call("device_reset", self.index)

    def alloc(self, size: int, stream: Stream | None = None) -> int:
        address = ctypes.c_uint64()
        call("memory_alloc", self.index, size, _handle(stream), byref(address))
        return address.value

    def free(self, address: int) -> None:
        call("memory_free", self.index, address)

    def record(self, address: int, stream: Stream | None) -> None:
        """The block is used on that stream too: it is not handed out again before the stream has
        passed the point of its free."""
        call("memory_record", self.index, address, _handle(stream))

    def write(
        self,
        address: int,
        data: bytes | bytearray | memoryview | PinnedBuffer,
        stream: Stream | None = None,
    ) -> None:
        """To the device. Asynchronous from a PinnedBuffer; else `data` may be reused on return."""
        if isinstance(data, PinnedBuffer):
            source, size = ctypes.c_void_p(data.address), data.size
        else:
            view = memoryview(data).cast("B")
            size = len(view)
            # A view of the bytes that are there, without a copy where the buffer is writable.
            whole = ctypes.c_char * size
            held = whole.from_buffer_copy(view) if view.readonly else whole.from_buffer(view)
            source = ctypes.cast(held, ctypes.c_void_p)
        call(
            "copy", self.index, _handle(stream), interface.COPY_TO_DEVICE, source, address, 0, size
        )

    def read(self, address: int, size: int, stream: Stream | None = None) -> bytes:
        """From the device through staging, after what was submitted to the stream."""
        target = ctypes.create_string_buffer(max(size, 1))
        self._copy_from(target, address, size, stream)
        return target.raw[:size]

    def read_pinned(self, buffer: PinnedBuffer, address: int, stream: Stream | None = None) -> None:
        """From the device into pinned memory, asynchronously."""
        self._copy_from(ctypes.c_void_p(buffer.address), address, buffer.size, stream)

    def copy(self, target: int, source: int, size: int, stream: Stream | None = None) -> None:
        """On the device."""
        kind = interface.COPY_ON_DEVICE
        call("copy", self.index, _handle(stream), kind, None, target, source, size)

    def fill(self, address: int, value: int, size: int, stream: Stream | None = None) -> None:
        call("fill", self.index, _handle(stream), address, value, size)

    def _copy_from(self, target: object, address: int, size: int, stream: Stream | None) -> None:
        kind = interface.COPY_FROM_DEVICE
        call("copy", self.index, _handle(stream), kind, target, address, 0, size)


def _handle(stream: Stream | None) -> int | None:
    return stream.handle if stream else None
