"""The emulated accelerator from Python: devices, memory, streams, programs, activity.

Importing this package loads no library and opens no device. `load()` loads libemurt and, through
it, libemudrv, once a process; a `Device` is opened by the first call that needs it.
Failures are exceptions of the `EmuError` tree.
"""

from __future__ import annotations

from emu_runtime.activity import Activity, ActivityKind, correlation, record_activity
from emu_runtime.device import (
    Counters,
    Device,
    MemoryPressure,
    MemoryStats,
    PinnedBuffer,
    PowerMode,
    Properties,
    Telemetry,
    Throttle,
    device_count,
    why_no_device,
)
from emu_runtime.errors import EmuError
from emu_runtime.library import library_path, load, shutdown
from emu_runtime.stream import Event, Module, Stream
from emu_runtime.versions import interface_version

__all__ = [
    "Activity",
    "ActivityKind",
    "Counters",
    "Device",
    "EmuError",
    "Event",
    "MemoryPressure",
    "MemoryStats",
    "Module",
    "PinnedBuffer",
    "PowerMode",
    "Properties",
    "Stream",
    "Telemetry",
    "Throttle",
    "correlation",
    "device_count",
    "interface_version",
    "library_path",
    "load",
    "record_activity",
    "shutdown",
    "why_no_device",
]
