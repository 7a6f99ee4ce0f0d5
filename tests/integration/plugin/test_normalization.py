"""Layer norm and softmax of rows in odd layouts, of mixed types, and of no elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

HALVES = [torch.float16, torch.bfloat16]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "cut": lambda x: x[:, 1:4, 3:101],
    "strided": lambda x: x[..., ::2],
    "expanded": lambda x: x[:1].expand(6, 5, 130),
    "reversed dimensions": lambda x: x.permute(2, 1, 0),
}


def rows() -> torch.Tensor:
    return torch.randn(6, 5, 130, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", LAYOUTS)
def test_layer_norm_of_a_layout(name: str) -> None:
    x, moved = LAYOUTS[name](rows()), LAYOUTS[name](rows().to("emu"))
    for dims in (1, 2, 3):
        shape = x.shape[-dims:]
        weight, bias = torch.rand(shape) + 0.5, torch.randn(shape)
        for w, b in ((weight, bias), (weight, None), (None, bias), (None, None)):
            expected = functional.layer_norm(x, shape, w, b)
            on_device = [None if p is None else p.to("emu") for p in (w, b)]
            got = functional.layer_norm(moved, shape, *on_device)
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax_of_a_layout(function: Callable[..., torch.Tensor], name: str) -> None:
    x, moved = LAYOUTS[name](rows()), LAYOUTS[name](rows().to("emu"))
    for dim in (-1, 0, 1, 2):
        torch.testing.assert_close(
            function(moved, dim).cpu(), function(x, dim), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("dtype", HALVES)
def test_half_with_parameters_of_float32(dtype: torch.dtype) -> None:
    x = torch.randn(4, 33).to(dtype)
    weight, bias = torch.rand(33) + 0.5, torch.randn(33)
    on_cpu = torch.native_layer_norm(x, (33,), weight, bias, 1e-5)
    there = torch.native_layer_norm(x.to("emu"), (33,), weight.to("emu"), bias.to("emu"), 1e-5)
    for got, expected in zip(there, on_cpu, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got.cpu(), expected, rtol=2e-2, atol=2e-2)


def test_types_that_do_not_go_together_are_refused() -> None:
    x, weight = torch.ones(2, 3, device="emu"), torch.ones(3, device="emu", dtype=torch.float64)
    with pytest.raises(RuntimeError, match="expected weight and bias of Float"):
        functional.layer_norm(x, (3,), weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
def test_gradients_of_every_operand(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    given = [torch.randn(3, 4, 20), torch.rand(4, 20) + 0.5, torch.randn(4, 20)]
    upstream = torch.randn(3, 4, 20).to(dtype)
    gradients = []
    for device in ("emu", "cpu"):
        x, weight, bias = (p.to(dtype).to(device).requires_grad_() for p in given)
        functional.layer_norm(x, (4, 20), weight, bias).backward(upstream.to(device))
        gradients.append([p.grad.cpu() for p in (x, weight, bias) if p.grad is not None])
        assert len(gradients[-1]) == 3
    within = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 5e-3}.get(dtype, 4e-2)
    for got, expected in zip(*gradients, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=within, atol=within)


def test_no_elements() -> None:
    for shape in ((0, 5), (2, 0, 5)):
        x = torch.ones(shape, device="emu", requires_grad=True)
        y = functional.layer_norm(x, (5,))
        assert y.shape == shape
        y.sum().backward()
        assert x.grad is not None and x.grad.shape == shape
        assert torch.softmax(x, -1).shape == shape
    assert torch.softmax(torch.tensor(3.0, device="emu"), 0).item() == 1
    assert torch.log_softmax(torch.tensor(3.0, device="emu"), 0).item() == 0


def test_second_gradient() -> None:
    given = torch.randn(2, 6, dtype=torch.float64)

    def second(device: str) -> torch.Tensor:
        x = given.to(device).requires_grad_()
        y = functional.layer_norm(x, (6,)).pow(3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (twice,) = torch.autograd.grad(first.pow(2).sum(), x)
        return twice.cpu()

    torch.testing.assert_close(second("emu"), second("cpu"), rtol=1e-9, atol=1e-9)
