"""LSTM, GRU and RNN in strict mode: forward and backward beside the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def run(kind: str, device: str, dtype: torch.dtype, **options: bool) -> list[torch.Tensor]:
    """Outputs, last states and all gradients of two layers over five steps."""
    torch.manual_seed(3)
    net = KINDS[kind](6, 4, num_layers=2, **options).to(device, dtype)
    x = torch.randn(5, 3, 6).to(device, dtype).requires_grad_()
    torch.emu.reset_execution_counts()
    output, state = net(x)
    states = list(state) if isinstance(state, tuple) else [state]
    loss = sum((one * one).sum() for one in [output, *states])
    assert isinstance(loss, torch.Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.emu.execution_counts()["fallback"] == {}
    assert x.grad is not None
    gradients = [one.grad for one in net.parameters() if one.grad is not None]
    assert len(gradients) == len(list(net.parameters()))
    return [one.detach().cpu() for one in [output, *states, x.grad, *gradients]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one_way", "both_ways"])
def test_as_the_cpu(kind: str, bias: bool, bidirectional: bool) -> None:
    options = {"bias": bias, "bidirectional": bidirectional}
    expected = run(kind, "cpu", torch.float64, **options)
    # Ten steps of sums over at most six terms and of functions within 3 units: far below the
    # 4,500 units that 1e-12 is, and f32's bounds are as many of its own.
    for got, want in zip(run(kind, "emu", torch.float64, **options), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    for got, want in zip(run(kind, "emu", torch.float32, **options), expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=5e-4, atol=5e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_halves_and_autocast(kind: str, dtype: torch.dtype) -> None:
    expected = run(kind, "cpu", torch.float64)
    unit = torch.finfo(dtype).eps
    for got, want in zip(run(kind, "emu", dtype), expected, strict=True):
        assert got.dtype is dtype
        torch.testing.assert_close(got.double(), want, rtol=40 * unit, atol=40 * unit)
    with torch.autocast("emu", dtype=dtype):
        mixed = run(kind, "emu", torch.float32)
    for got, want in zip(mixed, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=40 * unit, atol=40 * unit)


def test_second_derivatives() -> None:
    """With create_graph PyTorch differentiates a backward of its own, which runs here too."""
    found = []
    for device in ("cpu", "emu"):
        torch.manual_seed(3)
        cell = nn.GRUCell(6, 4).to(device, torch.float64)
        x = torch.randn(3, 6).to(device, torch.float64).requires_grad_()
        (first,) = torch.autograd.grad(cell(x).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        found.append(second.cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)
