"""`Module.to("emu")` keeps its parameter objects.

PyTorch replaces the data of a parameter in place only between devices whose tensors it calls
compatible; for others it makes new parameters, so that tied weights come apart and an optimizer
made before the move trains nothing. Swapping the tensors under the objects keeps both. The switch
for it is process-wide, so it is on only while a module moves to or from this device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def install() -> None:
    original: Callable[[nn.Module, Callable[..., Any], bool], nn.Module] = nn.Module._apply
    if getattr(original, "_emu", False):
        return

    @functools.wraps(original)
    def _apply(self: nn.Module, fn: Callable[..., Any], recurse: bool = True) -> nn.Module:
        future = torch.__future__
        if future.get_swap_module_params_on_conversion() or not _crosses(self, fn):
            return original(self, fn, recurse)
        future.set_swap_module_params_on_conversion(True)
        try:
            return original(self, fn, recurse)
        finally:
            future.set_swap_module_params_on_conversion(False)

    _apply._emu = True  # type: ignore[attr-defined]
    nn.Module._apply = _apply  # type: ignore[method-assign]


def _crosses(module: nn.Module, fn: Callable[..., Any]) -> bool:
    """Whether the conversion leads to or from the device, tried on one empty tensor per device."""
    devices = {parameter.device for parameter in module.parameters()}
    if any(device.type == "emu" for device in devices):
        return True
    with torch.no_grad():
        for device in devices:
            moved = fn(torch.empty(0, device=device))
            if isinstance(moved, torch.Tensor) and moved.device.type == "emu":
                return True
    return False
