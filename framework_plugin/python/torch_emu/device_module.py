"""`torch.emu`: the device module that PyTorch and users call.

Functions that only ask (`is_available`, `device_count`, `diagnose`) never raise and open nothing;
each other one raises RuntimeError with the reason when the device cannot be used.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import torch

from torch_emu import registration
from torch_emu.accounting import (
    KernelActivity,
    execution_counts,
    kernel_activity,
    reset_execution_counts,
)
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


def device_count() -> int:
    found = registration.loaded()
    return 0 if found is None else found.number("device_count")


def _lazy_init() -> None:
    """Called by PyTorch before a tensor is made on the device or moved to it."""
    if registration.library().number("device_count") == 0:
        raise RuntimeError(f"the emu device cannot be used: {diagnose().sentence()}")


init = _lazy_init


def is_initialized() -> bool:
    return is_available()


def _is_in_bad_fork() -> bool:
    """Whether this is a forked child: the runtime decides if the parent had used the device."""
    if os.getpid() == _owner:
        return False
    return diagnose().status == "FORKED"


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return current_device() if device < 0 else device
    made = torch.device(device)
    if made.type != "emu":
        raise ValueError(f"expected an emu device, got {made}")
    return current_device() if made.index is None else int(made.index)


def current_device() -> int:
    _lazy_init()
    return registration.library().number("current_device")


def set_device(device: Any) -> None:
    _lazy_init()
    registration.library().call("set_device", _index(device))


class device:
    """Context manager: `with torch.emu.device(1):` makes device 1 the current one inside."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)
        self._before = -1

    def __enter__(self) -> device:
        self._before = current_device()
        set_device(self._index)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_device(self._before)


def synchronize(device: Any = None) -> None:
    """Wait for all work of the device (default: the current one)."""
    _lazy_init()
    torch.accelerator.synchronize(_index(device))


# PyTorch's own: without a device they are of the accelerator, which is this one.
Stream = torch.Stream
Event = torch.Event


def current_stream(device: Any = None) -> torch.Stream:
    _lazy_init()
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: Any = None) -> torch.Stream:
    _lazy_init()
    kind = int(torch._C._autograd.DeviceType.PrivateUse1.value)
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """Context manager: `with torch.emu.stream(s):`; a stream is one itself."""
    return stream


def get_fallback_policy() -> str:
    policy = registration.library().get("fallback")
    assert isinstance(policy, bytes)
    return policy.decode()


def set_fallback_policy(policy: str) -> None:
    """`error`, `warn` or `allow`; the environment variable TORCH_EMU_FALLBACK sets it at import."""
    registration.library().call("set_fallback", policy.encode())


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]
