"""Which devices there are, and which one is current.

`device_count` never raises and opens nothing; each other function raises RuntimeError with the
reason when the device cannot be used.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from torch_emu import loading
from torch_emu.diagnosis import diagnose


def device_count() -> int:
    found = loading.loaded()
    return 0 if found is None else found.number("device_count")


def require() -> None:
    """Raise the reason if there is no device."""
    if loading.library().number("device_count") == 0:
        raise RuntimeError(f"the emu device cannot be used: {diagnose().sentence()}")


def index_of(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return current_device() if device < 0 else device
    made = torch.device(device)
    if made.type != "emu":
        raise ValueError(f"expected an emu device, got {made}")
    return current_device() if made.index is None else int(made.index)


def current_device() -> int:
    require()
    return loading.library().number("current_device")


def set_device(device: Any) -> None:
    require()
    loading.library().call("set_device", index_of(device))


class device:
    """Context manager: `with torch.emu.device(1):` makes device 1 the current one inside."""

    def __init__(self, device: Any) -> None:
        self._index = index_of(device)
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
