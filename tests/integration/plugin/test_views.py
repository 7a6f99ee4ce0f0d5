"""Views alias their base: same storage, writes seen both ways, one version counter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as_strided": lambda x: x.as_strided((2, 3), (4, 2), 1),
    "view": lambda x: x.view(2, 12),
    "view_dtype": lambda x: x.view(torch.int32),
    "reshape": lambda x: x.reshape(4, 6),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1),
    "select": lambda x: x[2],
    "slice": lambda x: x[1::2, 5:0:1] if False else x[1::2, 1:],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "expand": lambda x: x[:1].expand(5, 6),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "diagonal": lambda x: x.diagonal(1),
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "unbind": lambda x: x.unbind(1)[4],
    "detach": lambda x: x.detach(),
    "flatten": lambda x: x.flatten(),
    "movedim": lambda x: x.movedim(0, 1),
    "view_as_complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(12, 2))),
}


@pytest.mark.parametrize("name", VIEWS)
def test_aliases(name: str) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    on_device = base.to("emu")
    host, view = VIEWS[name](base), VIEWS[name](on_device)
    assert (view.shape, view.stride(), view.storage_offset()) == (
        host.shape,
        host.stride(),
        host.storage_offset(),
    )
    assert view.untyped_storage().data_ptr() == on_device.untyped_storage().data_ptr()
    torch.testing.assert_close(view.cpu(), host, rtol=0, atol=0)
    before = on_device._version
    if name not in ("expand", "unfold"):
        view.zero_()
        host.zero_()
        torch.testing.assert_close(on_device.cpu(), base, rtol=0, atol=0)
        assert name == "detach" or on_device._version == before + 1
    on_device.fill_(7)
    base.fill_(7)
    torch.testing.assert_close(view.cpu(), host, rtol=0, atol=0)


def test_resize_and_set_keep_what_was_there() -> None:
    x = torch.arange(4.0, device="emu")
    x.resize_(6)
    assert x[:4].tolist() == [0, 1, 2, 3]
    y = torch.empty(0, device="emu")
    y.set_(x.untyped_storage(), 1, (2, 2), (1, 2))
    assert y.tolist() == [[1, 3], [2, x[4].item()]]
    assert torch.empty(2, device="emu").set_().numel() == 0


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int8, torch.float64, torch.complex64, torch.bool]
)
def test_copies_of_every_layout(dtype: torch.dtype) -> None:
    x = (torch.arange(60) % 2).reshape(3, 4, 5).to(dtype)
    ways: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: t,
        lambda t: t.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    ]
    for source in ways:
        for target in ways:
            to = target(torch.zeros(3, 4, 5, dtype=dtype, device="emu"))
            to.copy_(source(x.to("emu")))
            assert torch.equal(to.cpu(), x)
            to = target(torch.zeros(3, 4, 5, dtype=dtype, device="emu"))
            to.copy_(source(x))
            assert torch.equal(to.cpu(), x)
            back = target(torch.zeros(3, 4, 5, dtype=dtype))
            back.copy_(source(x.to("emu")))
            assert torch.equal(back, x)
    assert x.to("emu").flip is not None
    assert x.to("emu").permute(2, 1, 0).contiguous().cpu().equal(x.permute(2, 1, 0))


def test_operators_on_lazy_views() -> None:
    """Programs and the host see the values of conjugate and negative views."""
    host = torch.complex(torch.arange(6.0), torch.arange(1.0, 7.0))
    x = host.to("emu")
    assert torch.equal((x.conj().imag * 2).cpu(), host.conj().imag * 2)
    assert x.conj()[1].item() == 1 - 2j
    with pytest.raises(NotImplementedError, match="no device program"):
        x * x.conj()
    torch.emu.set_fallback_policy("allow")
    try:
        assert torch.equal((x * x.conj()).cpu(), host * host.conj())
    finally:
        torch.emu.set_fallback_policy("error")
