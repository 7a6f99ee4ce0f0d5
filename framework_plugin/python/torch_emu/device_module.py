"""`torch.emu`: the device module that PyTorch and users call.

Functions that only ask (`is_available`, `device_count`, `diagnose`) never raise and open nothing;
each other one raises RuntimeError with the reason when the device cannot be used.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from torch_emu import devices, loading
from torch_emu.accounting import (
    KernelActivity,
    bookkeeping_bytes,
    execution_counts,
    kernel_activity,
    reset_execution_counts,
)
from torch_emu.devices import current_device, device, device_count, set_device
from torch_emu.diagnosis import Diagnosis, diagnose
from torch_emu.inductor import (  # noqa: F401  looked up here by name
    CppWrapperCodegen,
    PythonWrapperCodegen,
    Scheduling,
    WrapperFxCodegen,
)
from torch_emu.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from torch_emu.properties import DeviceProperties, get_device_name, get_device_properties
from torch_emu.rng import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    set_rng_state,
    set_rng_state_all,
)

__all__ = [
    "DeviceProperties",
    "Diagnosis",
    "Event",
    "KernelActivity",
    "Stream",
    "bookkeeping_bytes",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "diagnose",
    "empty_cache",
    "execution_counts",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_fallback_policy",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_initialized",
    "kernel_activity",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_execution_counts",
    "reset_peak_memory_stats",
    "seed",
    "set_device",
    "set_fallback_policy",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

# PyTorch's checkpoint and fork_rng keep the device's generator only where this is true.
_initialized = True

_owner = os.getpid()


def is_available() -> bool:
    return device_count() > 0


# What PyTorch calls before a tensor is made on the device or moved to it.
_lazy_init = init = devices.require


def is_initialized() -> bool:
    return is_available()


def _is_in_bad_fork() -> bool:
    """Whether this is a forked child: the runtime decides if the parent had used the device."""
    if os.getpid() == _owner:
        return False
    return diagnose().status == "FORKED"


def synchronize(device: Any = None) -> None:
    """Wait for all work of the device (default: the current one)."""
    devices.require()
    torch.accelerator.synchronize(devices.index_of(device))


# PyTorch's own: without a device they are of the accelerator, which is this one.
Stream = torch.Stream
Event = torch.Event


def current_stream(device: Any = None) -> torch.Stream:
    devices.require()
    return torch.accelerator.current_stream(devices.index_of(device))


def default_stream(device: Any = None) -> torch.Stream:
    devices.require()
    kind = int(torch._C._autograd.DeviceType.PrivateUse1.value)
    return torch.Stream(stream_id=0, device_index=devices.index_of(device), device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """Context manager: `with torch.emu.stream(s):`; a stream is one itself."""
    return stream


def get_fallback_policy() -> str:
    policy = loading.library().get("fallback")
    assert isinstance(policy, bytes)
    return policy.decode()


def set_fallback_policy(policy: str) -> None:
    """`error`, `warn` or `allow`; the environment variable TORCH_EMU_FALLBACK sets it at import."""
    loading.library().call("set_fallback", policy.encode())


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]
