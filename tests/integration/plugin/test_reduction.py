"""Reductions, matrix products, indexing and losses against the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from layouts import LAYOUTS
from operators import ALL, FLOATS
from test_elementwise import compare, values

DIMS: list[object] = [None, 0, 1, -1, (0, 2), (1, 2, 3)]


def close(got: torch.Tensor, expected: torch.Tensor, length: int) -> None:
    """Sums of `length` terms: each order of summation is within length * eps of the exact sum."""
    assert got.device.type == "emu"
    eps = torch.finfo(expected.dtype).eps if expected.dtype.is_floating_point else 0
    torch.testing.assert_close(
        got.cpu(), expected, rtol=2 * length * eps, atol=8 * length * eps, equal_nan=True
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", DIMS, ids=str)
def test_sums(dim: object, layout: str) -> None:
    for dtype in ALL:
        x = LAYOUTS[layout](values((6, 5, 40, 3), dtype, 1, False))
        y = LAYOUTS[layout](x.contiguous().to("emu"))
        for keepdim in (False, True):
            close(
                torch.sum(y, dim=dim, keepdim=keepdim), torch.sum(x, dim=dim, keepdim=keepdim), 3600
            )  # type: ignore[call-overload]
            dims = () if dim is None else dim
            compare(torch.amax(y, dims, keepdim), torch.amax(x, dims, keepdim), True)  # type: ignore[arg-type]
            compare(torch.amin(y, dims, keepdim), torch.amin(x, dims, keepdim), True)  # type: ignore[arg-type]
            compare(torch.any(y, dim, keepdim), torch.any(x, dim, keepdim), True)  # type: ignore[call-overload]
            compare(torch.all(y, dim, keepdim), torch.all(x, dim, keepdim), True)  # type: ignore[call-overload]
        if dtype in FLOATS:
            close(torch.mean(y, dim=dim), torch.mean(x, dim=dim), 64)  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [d for d in ALL if d != torch.bool], ids=str)
def test_arguments_of_extremes(dtype: torch.dtype) -> None:
    x = values((9, 70, 4), dtype, 2, False)
    y = x.to("emu")
    for dim in (None, 0, 1, 2):
        compare(y.argmax(dim), x.argmax(dim), True)
        compare(y.argmin(dim), x.argmin(dim), True)
    for got, expected in zip(y.max(1), x.max(1), strict=True):
        compare(got, expected, True)


def test_extremes_of_booleans() -> None:
    x = values((9, 70, 4), torch.bool, 2, False)
    for dim in (0, 1, 2):
        for name in ("max", "min"):
            for got, expected in zip(
                getattr(x.to("emu"), name)(dim), getattr(x, name)(dim), strict=True
            ):
                compare(got, expected, True)


@pytest.mark.parametrize(
    "result", [torch.float32, torch.float64, torch.float16, torch.int64], ids=str
)
def test_sums_in_another_type(result: torch.dtype) -> None:
    """The input is converted to the result's type, then summed: wraps and roundings are its own."""
    for dtype in ALL:
        x = values((40, 30), dtype, 1, False)
        if dtype is torch.int64:
            x = x + (1 << 40)
        y = x.to("emu")
        for dim in (0, 1, None):
            close(torch.sum(y, dim, dtype=result), torch.sum(x, dim, dtype=result), 1200)  # type: ignore[call-overload]
        compare(torch.prod(y[:3], 0, dtype=result), torch.prod(x[:3], 0, dtype=result), False)
        if result.is_floating_point:
            close(torch.mean(y, 0, dtype=result), torch.mean(x, 0, dtype=result), 40)
    long = torch.full((1 << 18,), 100, dtype=torch.int8)
    assert long.to("emu").sum().item() == 100 << 18
    assert long.to("emu").sum(dtype=result).cpu().equal(long.sum(dtype=result))


def test_nan_wins_and_the_first_extreme_counts() -> None:
    x = torch.tensor(
        [[1.0, 5.0, 5.0, 0.0], [1.0, float("nan"), 9.0, float("nan")], [-float("inf")] * 4]
    )
    compare(x.to("emu").argmax(1), x.argmax(1), True)
    compare(x.to("emu").amax(1), x.amax(1), True)
    compare(x.to("emu").t().argmin(0), x.t().argmin(0), True)


@pytest.mark.parametrize("shape", [(1 << 20,), (3, 1 << 18), (1 << 18, 3), (70001,)])
def test_long_reductions(shape: tuple[int, ...]) -> None:
    x = (torch.arange(torch.Size(shape).numel()) % 17).reshape(shape).float()
    assert x.to("emu").sum().item() == x.sum(dtype=torch.float64).item()
    compare(x.to("emu").amax(0), x.amax(0), True)
    close(x.to("emu").sum(0), x.sum(0), 1)


def test_empty_reductions() -> None:
    x = torch.zeros(0, 3)
    compare(x.to("emu").sum(0), x.sum(0), True)
    compare(x.to("emu").sum(), x.sum(), True)
    compare(x.to("emu").all(), x.all(), True)
    with pytest.raises((RuntimeError, IndexError)):
        x.to("emu").amax()


SIZES = [(1, 1, 1), (3, 5, 7), (128, 128, 128), (129, 200, 257), (4, 0, 5), (0, 4, 5)]


@pytest.mark.parametrize("rows, inner, columns", SIZES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_matrix_products(rows: int, inner: int, columns: int, dtype: torch.dtype) -> None:
    a, b = values((rows, inner), dtype, 1, False), values((inner, columns), dtype, 2, False)
    bias = values((columns,), dtype, 3, False)
    c = values((rows, columns), dtype, 4, False)
    on_a, on_b, on_bias, on_c = (t.to("emu") for t in (a, b, bias, c))
    # The values are multiples of 1/8 below 4: products and sums are exact in f32 and f64.
    compare(on_a @ on_b, a @ b, True)
    compare(on_b.t() @ on_a.t(), b.t() @ a.t(), True)
    compare(torch.addmm(on_bias, on_a, on_b), torch.addmm(bias, a, b), dtype in FLOATS[:2])
    scaled = torch.addmm(c, a, b, beta=0.5, alpha=2)
    compare(torch.addmm(on_c, on_a, on_b, beta=0.5, alpha=2), scaled, dtype in FLOATS[:2])
    compare(on_c.clone().addmm_(on_a, on_b), c.clone().addmm_(a, b), dtype in FLOATS[:2])
    wide = values((rows, 2 * inner + 1), dtype, 5, False)
    compare(wide.to("emu")[:, 1::2][:, :inner] @ on_b, wide[:, 1::2][:, :inner] @ b, True)


def test_batched_products() -> None:
    a, b = (
        values((5, 20, 30), torch.float32, 1, False),
        values((5, 30, 40), torch.float32, 2, False),
    )
    c = values((5, 1, 40), torch.float32, 3, False)
    compare(torch.bmm(a.to("emu"), b.to("emu")), torch.bmm(a, b), True)
    compare(torch.bmm(a.to("emu")[::2], b.to("emu")[::2]), torch.bmm(a[::2], b[::2]), True)
    compare(torch.baddbmm(c.to("emu"), a.to("emu"), b.to("emu")), torch.baddbmm(c, a, b), True)
    compare(torch.matmul(a.to("emu"), b.to("emu")[0]), torch.matmul(a, b[0]), True)
    compare(a.to("emu")[0] @ b.to("emu")[0, :, 0], a[0] @ b[0, :, 0], True)


def test_integer_products_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="matrix product of Int"):
        torch.ones(2, 2, dtype=torch.int32, device="emu") @ torch.ones(
            2, 2, dtype=torch.int32, device="emu"
        )


INDEXING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1]]).to(x.device)),
    "gather_transposed": lambda x: x.t().gather(0, torch.tensor([[0, 2, 1]]).to(x.device)),
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0, 2]).to(x.device)),
    "index": lambda x: x[torch.tensor([2, 0, -1]).to(x.device)],
    "index_pair": lambda x: x[
        torch.tensor([2, 0, -1]).to(x.device), torch.tensor([0, 1, -2]).to(x.device)
    ],
    "index_grid": lambda x: x[
        torch.tensor([[2], [0]]).to(x.device), torch.tensor([0, 1]).to(x.device)
    ],
    "index_last": lambda x: x[:, torch.tensor([1, 3]).to(x.device)],
    "scatter": lambda x: x.clone().scatter_(1, torch.tensor([[1], [0]]).to(x.device), x[:2, 2:3]),
    "scatter_value": lambda x: x.scatter(0, torch.tensor([[1, 0, 2, 1]]).to(x.device), 9),
    "index_put": lambda x: x.clone().index_put_((torch.tensor([1, 0]).to(x.device),), x[2]),
    "index_put_sums": lambda x: x.clone().index_put_(
        (torch.tensor([1, -2, 1]).to(x.device),), x, accumulate=True
    ),
    "index_put_sums_columns": lambda x: x.clone().index_put_(
        (torch.tensor([0, 2, 1]).to(x.device), torch.tensor([[1], [1]]).to(x.device)),
        x[:2, :1],
        accumulate=True,
    ),
    "cat": lambda x: torch.cat([x, x[:1], x.t()[:, :].reshape(-1, 4)], 0),
    "cat_columns": lambda x: torch.cat([x[:, ::2], x.int().to(x.dtype)], 1),
    "stack": lambda x: torch.stack([x, x.neg()], -1),
    "embedding": lambda x: functional.embedding(torch.tensor([[0, 2], [1, 1]]).to(x.device), x),
    "arange": lambda x: torch.arange(1, 30, 3, device=x.device, dtype=x.dtype),
    "one_hot_where": lambda x: torch.where(x > 1, 1, 0),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name: str) -> None:
    for dtype in (torch.float32, torch.int64, torch.float16, torch.int8, torch.float64):
        x = values((3, 4), dtype, 1, False)
        compare(INDEXING[name](x.to("emu")), INDEXING[name](x), True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction: str, weighted: bool) -> None:
    torch.manual_seed(0)
    scores, target = torch.randn(9, 5), torch.tensor([0, 1, 4, -100, 2, 3, 3, -100, 1])
    weight = torch.rand(5) if weighted else None

    def run(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = scores.detach().clone().to(device).requires_grad_()
        loss = functional.cross_entropy(
            leaf,
            target.to(device),
            weight=None if weight is None else weight.to(device),
            reduction=reduction,
        )
        loss.sum().backward()
        assert leaf.grad is not None
        return loss.detach(), leaf.grad

    for got, expected in zip(run("emu"), run("cpu"), strict=True):
        close(got, expected, 5)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_softmax(function: Callable[..., torch.Tensor], dim: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 30, 5)
    leaf, on_device = x.clone().requires_grad_(), x.to("emu").requires_grad_()
    expected, got = function(leaf, dim), function(on_device, dim)
    close(got.detach(), expected.detach(), 8)
    (expected * x).sum().backward()
    (got * x.to("emu")).sum().backward()
    assert leaf.grad is not None and on_device.grad is not None
    close(on_device.grad, leaf.grad, 32)
