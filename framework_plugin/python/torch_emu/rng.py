"""Seeds and states of the devices' default generators.

A state is a CPU byte tensor of 16 bytes: seed and offset, each 8 bytes, little endian. Seeding
works where the device cannot be used: `torch.manual_seed` seeds every backend there is.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import Any

import torch

from torch_emu import devices, loading

_DEVICES = 16


def manual_seed(seed: int) -> None:
    """Seed the current device's default generator."""
    library = loading.loaded()
    if library is not None:
        library.call("set_state", library.number("current_device"), _word(seed), 0)


def manual_seed_all(seed: int) -> None:
    library = loading.loaded()
    if library is not None:
        for index in range(_DEVICES):
            library.call("set_state", index, _word(seed), 0)


def seed() -> None:
    """Seed the current device's generator from the operating system."""
    manual_seed(secrets.randbits(63))


def initial_seed() -> int:
    return _state(_current())[0]


def get_rng_state(device: Any = "emu") -> torch.Tensor:
    words = _state(_resolve(device))
    return torch.tensor(
        list(words[0].to_bytes(8, "little") + words[1].to_bytes(8, "little")), dtype=torch.uint8
    )


def set_rng_state(new_state: torch.Tensor, device: Any = "emu") -> None:
    data = bytes(new_state.tolist())
    if new_state.dtype != torch.uint8 or len(data) != 16:
        raise RuntimeError(
            f"expected a generator state of 16 bytes (uint8), got {new_state.numel()} of "
            f"{new_state.dtype}; use one that get_rng_state gave"
        )
    loading.library().call(
        "set_state",
        _resolve(device),
        int.from_bytes(data[:8], "little"),
        int.from_bytes(data[8:], "little"),
    )


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(devices.device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _word(value: int) -> int:
    return int(value) & (2**64 - 1)


def _current() -> int:
    return loading.library().number("current_device")


def _resolve(device: Any) -> int:
    return devices.index_of(None if device == "emu" else device)


def _state(index: int) -> tuple[int, int]:
    seed, offset = ctypes.c_uint64(), ctypes.c_uint64()
    loading.library().call("get_state", index, ctypes.byref(seed), ctypes.byref(offset))
    return seed.value, offset.value
