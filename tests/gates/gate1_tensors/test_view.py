"""A view is the same memory seen another way, never a copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from layouts import VIEWS

SHAPE = (4, 6, 8)


def pair(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    host = torch.arange(192, dtype=torch.float32).reshape(SHAPE)
    return host.to(device, copy=True), host


@pytest.mark.check("gate1.view.aliases", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", VIEWS)
def test_aliases(device: str, name: str, detail: Callable[..., None]) -> None:
    """A view comes back as a copy: writes through it, or under it, are not seen. No error."""
    base, host = pair(device)
    view, reference = VIEWS[name](base), VIEWS[name](host)
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    base.mul_(3)
    host.mul_(3)
    assert torch.equal(view.cpu(), reference), "a write to the base is not seen in the view"
    if name != "expand":  # several elements are one: writing is refused, see the strided checks
        view.fill_(7)
        reference.fill_(7)
        assert torch.equal(base.cpu(), host), "a write to the view is not seen in the base"
    assert view._version == base._version
    detail(path="native")


@pytest.mark.check("gate1.view.layout", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", VIEWS)
def test_layout(device: str, name: str) -> None:
    """`x[1::2]` and friends lose their storage offset or stride, and show other elements."""
    base, host = pair(device)
    view, reference = VIEWS[name](base), VIEWS[name](host)
    assert (view.shape, view.stride(), view.storage_offset(), view.dtype) == (
        reference.shape,
        reference.stride(),
        reference.storage_offset(),
        reference.dtype,
    )
    assert torch.equal(view.cpu(), reference)
    assert torch.equal((view + 1).cpu(), reference + 1)  # a program sees what the copy sees


@pytest.mark.check("gate1.view.version_guard", obligations=["G1", "N4"], kind="focused test")
def test_version_counter_is_shared(device: str) -> None:
    """A tensor saved for backward is changed through a view, and gradients are silently wrong."""
    weight = torch.ones(4, device=device, requires_grad=True)
    saved = weight * 2
    loss = (saved * saved).sum()
    saved.detach()[:2].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.check("gate1.storage.offset", obligations=["G1"], kind="focused test")
def test_storage(device: str) -> None:
    """`set_`, `resize_` or a storage's size disagree with the CPU's, and old contents are lost."""
    for where in ("cpu", device):
        base = torch.arange(24, dtype=torch.float32).to(where)
        tail = base[10:]
        assert tail.storage_offset() == 10
        assert tail.data_ptr() == base.data_ptr() + 40
        assert base.untyped_storage().nbytes() == 96
        again = torch.empty(0, device=where).set_(base.untyped_storage(), 4, (2, 3), (6, 1))
        assert again.cpu().tolist() == [[4, 5, 6], [10, 11, 12]]
        grown = torch.arange(4, dtype=torch.float32).to(where)
        grown.resize_(64)
        assert grown.cpu()[:4].tolist() == [0, 1, 2, 3]
        assert grown.untyped_storage().nbytes() == 256
