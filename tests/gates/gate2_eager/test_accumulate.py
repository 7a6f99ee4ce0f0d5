"""Where several elements meet in one, and what a sum costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

SEED = 43
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@pytest.mark.check("gate2.operator.accumulate", obligations=["G2", "N2", "N4"], kind="focused test")
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_accumulate(device: str, dtype: torch.dtype) -> None:
    """Of several values for one element one is kept, or index_put_ ends in an assertion."""
    generator = torch.Generator().manual_seed(SEED)
    # Integers whose sums every float holds; narrow integers wrap, as on the CPU.
    rows = torch.randint(-7, 7, (9000,), generator=generator)
    columns = torch.randint(0, 5, (9000,), generator=generator)
    values = torch.randint(0, 2, (9000,), generator=generator).to(dtype)
    start = torch.arange(35).reshape(7, 5).to(dtype)
    plain = start.clone().index_put_((rows, columns), values, accumulate=True)
    there = start.to(device).t().contiguous().t()  # by columns
    there.index_put_((rows.to(device), columns.to(device)), values.to(device), accumulate=True)
    assert torch.equal(there.cpu(), plain)
    # A value for several elements, and a slice beside the index.
    one = torch.ones((), dtype=dtype)
    plain = start.clone().index_put_((rows[:50],), one, accumulate=True)
    there = start.to(device).index_put_((rows[:50].to(device),), one.to(device), accumulate=True)
    assert torch.equal(there.cpu(), plain)
    if dtype.is_floating_point:
        grads = []
        for where in ("cpu", device):
            x = start.to(where, copy=True).requires_grad_()
            (x[:, columns[:40].to(where)][rows[:6].to(where)] * 1.5).sum().backward()
            assert x.grad is not None
            grads.append(x.grad.cpu())
        assert torch.equal(grads[0], grads[1])


Put = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
PUTS: dict[str, Put] = {
    "index_put": lambda x, index, values: x.index_put_((index,), values),
    "scatter": lambda x, index, values: x.scatter_(0, index, values),
}


@pytest.mark.check("gate2.operator.last_put_wins", obligations=["G2", "N8"], kind="focused test")
@pytest.mark.parametrize("name", PUTS)
def test_last_put_wins(device: str, name: str) -> None:
    """Under deterministic algorithms some other of several values for one element is kept."""
    index = torch.arange(30000) * 7 % 11
    values = torch.arange(30000.0)
    torch.use_deterministic_algorithms(True)
    try:
        there = PUTS[name](torch.zeros(11, device=device), index.to(device), values.to(device))
        plain = PUTS[name](torch.zeros(11), index, values)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(there.cpu(), plain)


@pytest.mark.check("gate2.operator.sum_memory", obligations=["G2"], kind="focused test")
@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int32, torch.float16], ids=short)
def test_sum_memory(accelerator: str, dtype: torch.dtype) -> None:
    """A sum first makes a copy of its input in a wider type: eight times the memory for int8."""
    module = torch.get_device_module(accelerator)
    x = torch.ones(1 << 20, dtype=dtype, device=accelerator)
    for result in (None, torch.float32):
        torch.accelerator.synchronize()
        before = module.memory_allocated()
        module.reset_peak_memory_stats()
        total = x.sum(dtype=result).item()
        # A sum in f16 that is asked for nothing is f16's: 1 << 20 is beyond its range.
        assert total == (float("inf") if (dtype, result) == (torch.float16, None) else 1 << 20)
        assert module.max_memory_allocated() - before < x.nbytes // 2
