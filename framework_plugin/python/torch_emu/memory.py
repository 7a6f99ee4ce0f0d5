"""Memory of a device as the caching allocator counts it, in bytes.

`device` is an index, a string or a torch.device; by default the current device.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch_emu import devices

if TYPE_CHECKING:
    from emu_runtime import Device


def _runtime_device(device: Any) -> Device:
    from emu_runtime import Device

    devices.require()
    return Device(devices.index_of(device))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Every figure of the allocator, by its name in the runtime's interface."""
    return asdict(_runtime_device(device).memory_stats())


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_peak_bytes"]


def memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_bytes"]


def max_memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_peak_bytes"]


def reset_peak_memory_stats(device: Any = None) -> None:
    _runtime_device(device).reset_peaks()


def empty_cache() -> None:
    """Give cached memory that no tensor holds back to the device."""
    for index in range(devices.device_count()):
        _runtime_device(index).empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the device; free counts what any process holds."""
    runtime = _runtime_device(device)
    total = runtime.properties().memory_bytes
    return total - runtime.telemetry().memory_used_bytes, total
