"""Every layout copies to every layout, and in-place operations write the elements they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from layouts import LAYOUTS

IN_PLACE: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, y: x.add_(y, alpha=2),
    lambda x, y: x.mul_(y),
    lambda x, y: torch.sub(x, y, out=x),
    lambda x, y: x.relu_(),
    lambda x, y: x.zero_(),
]


def values(scale: float = 1.0) -> torch.Tensor:
    return torch.arange(24, dtype=torch.float32).reshape(4, 6) * scale


@pytest.mark.check("gate1.strided.copies", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("source", LAYOUTS)
def test_layout_to_layout(device: str, source: str) -> None:
    """A copy between two layouts moves elements to other places, or touches their neighbours."""
    for target in LAYOUTS:
        if target == "expanded":
            continue
        for dtype in (torch.float32, torch.float16, torch.int64):
            base = LAYOUTS[target](values(-1).to(dtype).to(device))
            expected = LAYOUTS[target](values(-1).to(dtype))
            base.copy_(LAYOUTS[source](values().to(device)))
            expected.copy_(LAYOUTS[source](values()))
            assert torch.equal(base.cpu(), expected), f"{source} to {target}, {dtype}"
            whole = base.as_strided((base.untyped_storage().nbytes() // dtype.itemsize,), (1,), 0)
            whole_expected = expected.as_strided(tuple(whole.shape), (1,), 0)
            assert torch.equal(whole.cpu(), whole_expected), f"{source} to {target}: neighbours"


@pytest.mark.check("gate1.strided.contiguous", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", LAYOUTS)
def test_contiguous(device: str, name: str) -> None:
    """`.contiguous()` of a transposed view fails, recurses, or keeps its old strides."""
    tensor = LAYOUTS[name](values().to(device))
    result = tensor.contiguous()
    assert result.stride() == (6, 1)
    assert torch.equal(result.cpu(), LAYOUTS[name](values()).contiguous())
    image = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    last = image.to(device).contiguous(memory_format=torch.channels_last)
    assert last.stride() == image.contiguous(memory_format=torch.channels_last).stride()
    assert torch.equal(last.cpu(), image)


@pytest.mark.check("gate1.strided.in_place", obligations=["G1", "G2"], kind="focused test")
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "expanded"])
def test_in_place(device: str, name: str) -> None:
    """An in-place or `out=` operation on a strided tensor does nothing, or the wrong elements."""
    for operate in IN_PLACE:
        tensor = LAYOUTS[name](values().to(device) - 9)
        expected = LAYOUTS[name](values() - 9)
        operate(tensor, values(0.5).to(device))
        operate(expected, values(0.5))
        assert torch.equal(tensor.cpu(), expected)


@pytest.mark.check("gate1.strided.overlap_refused", obligations=["G1"], kind="focused test")
def test_overlap(device: str) -> None:
    """Writing where several elements are one gives some result, where the CPU raises."""
    for where in ("cpu", device):
        base = torch.arange(8, dtype=torch.float32).to(where)
        with pytest.raises(RuntimeError, match="single memory location"):
            base[:1].expand(8).add_(1)
        with pytest.raises(RuntimeError, match="single memory location"):
            base[1:].add_(base[:-1])
        assert base.cpu().tolist() == list(range(8))


@pytest.mark.check("gate1.strided.zero_size", obligations=["G1"], kind="focused test")
def test_zero_size(device: str) -> None:
    """A tensor with no element faults the device, or comes back with another shape."""
    for shape in ((0,), (3, 0), (0, 5), (2, 0, 4)):
        tensor = torch.empty(shape, device=device)
        for result in (tensor + 1, tensor.clone(), tensor * tensor, tensor.relu(), tensor.cpu()):
            assert tuple(result.shape) == shape
        tensor.fill_(1)
        assert tensor.sum().item() == 0
    empty = torch.empty(3, 0, device=device) @ torch.empty(0, 5, device=device)
    assert torch.equal(empty.cpu(), torch.zeros(3, 5))
