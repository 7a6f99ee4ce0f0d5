"""`print(tensor)` copies the tensor to the host first.

PyTorch chooses the format with many small operators on the tensor's own device, some of which
give results of unknown size. It prints from the host for a fixed list of devices, which is not
open to others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import _tensor_str as formatting


def install() -> None:
    original: Callable[[torch.Tensor, int], str] = formatting._tensor_str
    if getattr(original, "_emu", False):
        return

    @functools.wraps(original)
    def _tensor_str(self: torch.Tensor, indent: int) -> str:
        return original(self.cpu() if self.device.type == "emu" else self, indent)

    _tensor_str._emu = True  # type: ignore[attr-defined]
    formatting._tensor_str = _tensor_str
