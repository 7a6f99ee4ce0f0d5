"""Layouts and views, each as a function that does the same on the device and on the host."""

from __future__ import annotations

from collections.abc import Callable

import torch

Make = Callable[[torch.Tensor], torch.Tensor]

# Each makes a tensor of shape (4, 6) from a contiguous one of 4 x 6 values.
LAYOUTS: dict[str, Make] = {
    "contiguous": lambda x: x.clone(),
    "transposed": lambda x: x.t().contiguous().t(),
    "offset": lambda x: torch.cat([x[:1], x])[1:],
    "stepped": lambda x: torch.stack([x, x], dim=2).flatten(1)[:, ::2],
    "inner_padding": lambda x: torch.cat([x, x[:, :3]], dim=1)[:, :6],
    "reversed_dims": lambda x: (
        x.reshape(2, 2, 6).permute(2, 1, 0).contiguous().permute(2, 1, 0).reshape(4, 6)
    ),
    "expanded": lambda x: x[:1].expand(4, 6),
}

# Each is a view of a contiguous tensor of shape (4, 6, 8).
VIEWS: dict[str, Make] = {
    "alias": lambda x: x.detach(),
    "as_strided": lambda x: x.as_strided((3, 5), (48, 2), 7),
    "chunk": lambda x: x.chunk(3, dim=1)[1],
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "expand": lambda x: x[:, :1].expand(4, 6, 8),
    "flatten": lambda x: x.flatten(1),
    "index_none": lambda x: x[1, :, None, 2:],
    "movedim": lambda x: x.movedim(0, 2),
    "narrow": lambda x: x.narrow(1, 2, 3),
    "permute": lambda x: x.permute(2, 0, 1),
    "reinterpret": lambda x: x.view(torch.int32),
    "select": lambda x: x.select(1, 3),
    "slice_step": lambda x: x[1::2, ::3, 5:],
    "split": lambda x: x.split([1, 2, 3], dim=1)[2],
    "squeeze": lambda x: x[:1].squeeze(0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "transpose": lambda x: x.mT,
    "unbind": lambda x: x.unbind(2)[4],
    "unflatten": lambda x: x.unflatten(2, (2, 4)),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "view": lambda x: x.view(8, 24),
}
