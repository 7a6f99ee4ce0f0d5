"""emu/runtime.h in ctypes: the structs and the table, field for field.

A test compiles the header and compares every offset and size with what stands here.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar

MAJOR = 1
MINOR = 2
NUMBER = MAJOR * 1000 + MINOR


class Number(enum.IntEnum):
    """An enumeration of the interface. A newer device, which may be met, has numbers that are not
    here: they stand for themselves. (Of `emu_driver_shim.driver` too, which may be missing.)"""

    @classmethod
    def _missing_(cls, value: object) -> Number | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"NUMBER_{value}", value
        return unknown


class CError(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("status", c_int32),
        ("scope", c_int32),
        ("device", c_int32),
        ("stream", c_uint64),
        ("command", c_uint64),
        ("address", c_uint64),
        ("program", c_char * 64),
        ("cause", c_char * 384),
        ("mend", c_char * 256),
    ]


class CDeviceProperties(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("cores", c_uint32),
        ("max_lanes", c_uint32),
        ("interface_version", c_uint32),
        ("memory_bytes", c_uint64),
        ("clock_hertz", c_uint64),
        ("name", c_char * 64),
        ("uuid", c_char * 40),
        ("stepping", c_char * 8),
        ("firmware", c_char * 32),
        ("driver", c_char * 32),
        ("is_private", c_int32),
        ("emud_pid", c_int32),
        ("node", c_char * 256),
        ("emud_index", c_uint32),
        ("reserved_", c_uint32),
    ]


class CMemoryStats(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("reserved_", c_uint32),
        ("allocated_bytes", c_uint64),
        ("allocated_peak_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("reserved_peak_bytes", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("driver_allocations", c_uint64),
        ("driver_frees", c_uint64),
        ("out_of_memory", c_uint64),
    ]


class CCounters(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("reserved_", c_uint32),
        ("launches", c_uint64),
        ("copies_to_device", c_uint64),
        ("copies_from_device", c_uint64),
        ("copies_on_device", c_uint64),
        ("bytes_to_device", c_uint64),
        ("bytes_from_device", c_uint64),
        ("bytes_on_device", c_uint64),
        ("module_hits", c_uint64),
        ("module_misses", c_uint64),
        ("synchronizations", c_uint64),
    ]


class CTelemetry(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("contexts", c_uint32),
        ("queues", c_uint32),
        ("power_mode", c_uint32),
        ("memory_used_bytes", c_uint64),
        ("device_ticks", c_uint64),
        ("busy_ticks", c_uint64),
        ("commands", c_uint64),
        ("launches", c_uint64),
        ("faults", c_uint64),
        ("bytes_to_device", c_uint64),
        ("bytes_from_device", c_uint64),
        ("matrix_ticks", c_uint64),
        ("vector_ticks", c_uint64),
        ("memory_ticks", c_uint64),
        ("copy_ticks", c_uint64),
        ("ecc_corrected", c_uint64),
        ("ecc_uncorrected", c_uint64),
        ("clock_hertz", c_double),
        ("power_watts", c_double),
        ("temperature_celsius", c_double),
        ("spent_matrix_ticks", c_uint64),
        ("spent_vector_ticks", c_uint64),
        ("spent_memory_ticks", c_uint64),
        ("spent_control_ticks", c_uint64),
        ("spent_copy_ticks", c_uint64),
        ("spent_waiting_ticks", c_uint64),
        ("spent_idle_ticks", c_uint64),
        ("copy_engine_ticks", c_uint64),
        ("bytes_on_device", c_uint64),
        ("to_device_ticks", c_uint64),
        ("from_device_ticks", c_uint64),
        ("on_device_ticks", c_uint64),
        ("program_bytes", c_uint64),
        ("queued_commands", c_uint64),
        ("queue_delay_ticks", c_uint64),
        ("queue_delay_most_ticks", c_uint64),
        ("queue_delay_ns", c_uint64),
        ("queue_delay_most_ns", c_uint64),
        ("memory_peak_bytes", c_uint64),
        ("memory_largest_free_bytes", c_uint64),
        ("memory_pressure", c_uint32),
        ("throttle", c_uint32),
        ("throttled_ticks", c_uint64),
        ("clock_changes", c_uint64),
        ("emud_start_ns", c_uint64),
    ]


class CPowerMode(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("index", c_uint32),
        ("name", c_char * 16),
        ("clock_hertz", c_uint64),
        ("idle_watts", c_double),
        ("busy_watts", c_double),
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


class CActivity(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("kind", c_uint32),
        ("device", c_int32),
        ("status", c_int32),
        ("stream", c_uint64),
        ("command", c_uint64),
        ("correlation", c_uint64),
        ("start_ticks", c_uint64),
        ("end_ticks", c_uint64),
        ("start_ns", c_uint64),
        ("end_ns", c_uint64),
        ("bytes", c_uint64),
        ("grid", c_uint32 * 3),
        ("reserved_", c_uint32),
        ("program", c_char * 64),
    ]


COPY_TO_DEVICE = 1
COPY_FROM_DEVICE = 2
COPY_ON_DEVICE = 3


def _call(*arguments: Any) -> Any:
    return CFUNCTYPE(c_int32, *arguments)


class CApi(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("size", c_uint32),
        ("version", c_uint32),
        ("last_error", CFUNCTYPE(None, POINTER(CError))),
        ("status_name", CFUNCTYPE(c_char_p, c_int32)),
        ("shutdown", _call()),
        ("device_count", _call(POINTER(c_uint32))),
        ("device_properties", _call(c_int32, POINTER(CDeviceProperties))),
        ("device_telemetry", _call(c_int32, POINTER(CTelemetry))),
        ("device_counters", _call(c_int32, POINTER(CCounters))),
        ("device_synchronize", _call(c_int32)),
        ("device_reset", _call(c_int32)),
        ("memory_alloc", _call(c_int32, c_uint64, c_void_p, POINTER(c_uint64))),
        ("memory_free", _call(c_int32, c_uint64)),
        ("memory_record", _call(c_int32, c_uint64, c_void_p)),
        ("memory_empty_cache", _call(c_int32)),
        ("memory_stats", _call(c_int32, POINTER(CMemoryStats))),
        ("memory_reset_peaks", _call(c_int32)),
        ("host_alloc", _call(c_uint64, POINTER(c_void_p))),
        ("host_free", _call(c_void_p)),
        ("host_is_pinned", _call(c_void_p)),
        ("stream_create", _call(c_int32, c_int32, POINTER(c_void_p))),
        ("stream_destroy", _call(c_void_p)),
        ("stream_id", CFUNCTYPE(c_uint64, c_int32, c_void_p)),
        ("stream_query", _call(c_int32, c_void_p, POINTER(c_int32))),
        ("stream_synchronize", _call(c_int32, c_void_p)),
        ("stream_wait_event", _call(c_int32, c_void_p, c_void_p)),
        ("event_create", _call(c_int32, c_int32, POINTER(c_void_p))),
        ("event_destroy", _call(c_void_p)),
        ("event_record", _call(c_void_p, c_void_p)),
        ("event_query", _call(c_void_p, POINTER(c_int32))),
        ("event_synchronize", _call(c_void_p)),
        ("event_elapsed", _call(c_void_p, c_void_p, POINTER(c_double), POINTER(c_double))),
        ("copy", _call(c_int32, c_void_p, c_int32, c_void_p, c_uint64, c_uint64, c_uint64)),
        ("fill", _call(c_int32, c_void_p, c_uint64, c_uint8, c_uint64)),
        ("module_get", _call(c_int32, c_char_p, c_size_t, POINTER(c_void_p))),
        ("launch", _call(c_int32, c_void_p, c_void_p, POINTER(c_uint32), c_void_p, c_size_t)),
        ("activity_enable", _call(c_int32)),
        (
            "activity_read",
            _call(POINTER(CActivity), c_size_t, POINTER(c_size_t), POINTER(c_uint64)),
        ),
        ("correlation_push", CFUNCTYPE(None, c_uint64)),
        ("correlation_pop", CFUNCTYPE(None)),
        ("memory_check", _call(c_uint64)),
        ("power_mode_info", _call(c_int32, c_uint32, POINTER(CPowerMode))),
        ("device_set_power_mode", _call(c_int32, c_uint32)),
        ("link_info", _call(c_int32, c_uint32, POINTER(CLinkInfo))),
    ]


def _limits(prototype: Any) -> list[tuple[int, int, int]]:
    """Position, least and most of each argument that is a number: ctypes would cut others."""
    found = []
    for position, kind in enumerate(getattr(prototype, "_argtypes_", ())):
        if kind in (c_int32, c_uint8, c_uint32, c_uint64, c_size_t):
            bits, is_signed = 8 * ctypes.sizeof(kind), kind(-1).value < 0
            least = -(1 << (bits - 1)) if is_signed else 0
            found.append((position, least, least + (1 << bits) - 1))
    return found


LIMITS = {name: _limits(prototype) for name, prototype in CApi._fields_}
