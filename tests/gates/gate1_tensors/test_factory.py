"""Factories give what they say, in memory that is nobody else's."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.check("gate1.factory.values", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize(
    "dtype",
    DTYPES,
    ids=lambda d: str(d).removeprefix("torch."),
)
def test_values(device: str, dtype: torch.dtype) -> None:
    """`zeros`, `ones`, `full` or a `_like` factory gives other values, dtype, shape or device."""
    like = torch.empty(3, 5, dtype=dtype, device=device)
    assert like.device.type == device
    for tensor, value in (
        (torch.zeros(3, 5, dtype=dtype, device=device), 0),
        (torch.ones(3, 5, dtype=dtype, device=device), 1),
        (torch.full((3, 5), 1, dtype=dtype, device=device), 1),
        (torch.zeros_like(like), 0),
        (torch.ones_like(like), 1),
        (torch.full_like(like, 0), 0),
        (like.new_ones(3, 5), 1),
        (torch.empty_strided((3, 5), (1, 3), dtype=dtype, device=device).fill_(1), 1),
    ):
        assert (tensor.dtype, tuple(tensor.shape)) == (dtype, (3, 5))
        assert tensor.device == like.device
        assert torch.equal(tensor.cpu(), torch.full((3, 5), value, dtype=dtype))
    literal = torch.tensor([[1, 0], [0, 1]], dtype=dtype, device=device)
    assert torch.equal(literal.cpu(), torch.tensor([[1, 0], [0, 1]], dtype=dtype))


@pytest.mark.check("gate1.factory.fresh", obligations=["G1", "R2"], kind="focused test")
def test_fresh(device: str) -> None:
    """Two live tensors share memory, or a reused block shows its old values through `zeros`."""
    live = [torch.full((1000 + n,), float(n), device=device) for n in range(64)]
    starts = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in live)
    assert all(end <= start for (_, end), (start, _) in pairwise(starts))
    for number, tensor in enumerate(live):
        assert bool((tensor == number).all().item())
    del live, tensor
    for size in (1000, 1030, 1 << 20):
        assert torch.zeros(size, device=device).abs().sum().item() == 0


@pytest.mark.check("gate1.memory.returns", obligations=["G1", "R2"], kind="focused test")
def test_memory_returns(accelerator: str) -> None:
    """Freed memory never comes back: a long loop ends in out-of-memory."""
    module = torch.get_device_module(accelerator)
    before = module.memory_allocated()
    for _ in range(200):
        tensor = torch.empty(64 << 20, dtype=torch.uint8, device=accelerator)  # 12.5 GiB in all
        tensor.fill_(1)
        assert module.memory_allocated() >= before + (64 << 20)
    del tensor
    module.synchronize()
    assert module.memory_allocated() == before


@pytest.mark.check("gate1.error.out_of_memory", obligations=["G1", "Q8"], kind="focused test")
def test_out_of_memory(accelerator: str) -> None:
    """Too large a tensor gives a crash or a bare "error", and the device is of no use after."""
    asked = 1 << 45
    with pytest.raises(RuntimeError) as raised:
        torch.empty(asked, dtype=torch.uint8, device=accelerator)
    text = str(raised.value)
    assert "memory" in text.lower()
    assert str(asked) in text or "32.00 TiB" in text or "32768.00 GiB" in text, text
    assert torch.ones(4, device=accelerator).sum().item() == 4


@pytest.mark.check("gate1.device.index_refused", obligations=["G1"], kind="focused test")
def test_index(accelerator: str) -> None:
    """A device that is not there is used as if it were, or the message names no count."""
    count = torch.get_device_module(accelerator).device_count()
    with pytest.raises(RuntimeError, match=rf"\b{count + 7}\b"):
        torch.ones(2, device=f"{accelerator}:{count + 7}")
