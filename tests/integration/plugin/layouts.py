"""Layouts of one logical tensor: how the same values can lie in memory."""

from __future__ import annotations

from collections.abc import Callable

import torch

Layout = Callable[[torch.Tensor], torch.Tensor]


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x


def _offset(x: torch.Tensor) -> torch.Tensor:
    wide = torch.zeros((*x.shape[:-1], x.shape[-1] + 3), dtype=x.dtype, device=x.device)
    wide[..., 2:-1] = x
    return wide[..., 2:-1]


def _every_other(x: torch.Tensor) -> torch.Tensor:
    wide = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype, device=x.device)
    wide[..., ::2] = x
    return wide[..., ::2]


def _expanded(x: torch.Tensor) -> torch.Tensor:
    return x[:1].clone().expand(x.shape)


LAYOUTS: dict[str, Layout] = {
    "contiguous": lambda x: x,
    "transposed": _transposed,
    "offset": _offset,
    "every_other": _every_other,
    "expanded": _expanded,
}
"""Each takes a contiguous tensor of at least one dimension and gives one of the same shape."""

SHAPES: list[tuple[int, ...]] = [(7,), (5, 300), (300, 5), (0, 3), (1,), (2, 3, 4, 5, 6)]
