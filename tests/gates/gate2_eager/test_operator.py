"""Operators against references that are more precise than they are, or against exact rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from numerics import gamma, mismatches, product_bound, worst_ulp
from tolerances import tolerance

SEED = 41
Operator = Callable[..., torch.Tensor]

# One rounding, or none: any correct device gives the CPU's bits.
EXACT: dict[str, Operator] = {
    "add": lambda x, y: x + y,
    "add_scaled": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: 3 - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: x.relu(),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "clamp": lambda x, y: x.clamp(-1, 1),
    "where": lambda x, y: torch.where(x > y, x, y),
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "ge_scalar": lambda x, y: x >= 0.5,
    "logical_and": lambda x, y: (x > 0) & (y > 0),
    "broadcast": lambda x, y: x[:, None] * y[None, :7],
    "promotion": lambda x, y: x + torch.ones(1, dtype=torch.int32, device=x.device),
}
# Of two zeros they select one, and the CPU's choice of sign varies with type and vector width.
SIGN_FREE = {"relu", "maximum", "minimum", "clamp"}
INTEGER: list[Operator] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: -x,
    lambda x, y: torch.maximum(x, y),
    lambda x, y: x > y,
]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

# Functions that the machine states a bound for, with the reference in extended precision.
BOUNDED: dict[str, tuple[Operator, Callable[[Any], Any]]] = {
    "exp": (lambda x: torch.exp(x), numpy.exp),
    "log": (lambda x: torch.log(x), numpy.log),
    "tanh": (lambda x: torch.tanh(x), numpy.tanh),
    "sigmoid": (lambda x: torch.sigmoid(x), lambda x: 1 / (1 + numpy.exp(-x))),
    "rsqrt": (lambda x: torch.rsqrt(x), lambda x: 1 / numpy.sqrt(x)),
}
SHAPES = [(1, 1, 1), (7, 1, 9), (32, 64, 10), (65, 129, 33), (128, 256, 128), (3, 4096, 2)]


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def inputs(dtype: torch.dtype, count: int = 5000) -> tuple[torch.Tensor, torch.Tensor]:
    """Ordinary values over many magnitudes, and every special one."""
    generator = torch.Generator().manual_seed(SEED)
    scale = torch.exp2(torch.randint(-12, 12, (count,), generator=generator).double())
    tiny, top = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max
    special = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), tiny, tiny / 4, top]
    first = torch.cat([torch.randn(count, generator=generator) * scale, torch.tensor(special)])
    second = torch.cat([torch.randn(count, generator=generator), torch.tensor(special[::-1])])
    return first.to(dtype), second.to(dtype)


@pytest.mark.check("gate2.operator.elementwise", obligations=["G2", "N2"], kind="focused test")
@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_elementwise(device: str, dtype: torch.dtype, detail: Callable[..., None]) -> None:
    """An elementwise operator gives other bits than the CPU, though rounding leaves no choice."""
    x, y = inputs(dtype)
    wrong: dict[str, Any] = {}
    for name, operator in EXACT.items():
        expected = operator(x, y)
        got = operator(x.to(device), y.to(device)).cpu()
        assert got.dtype == expected.dtype, name
        if name in SIGN_FREE:
            got, expected = got + 0, expected + 0  # -0 becomes 0
        if found := mismatches(got, expected):
            wrong[name] = found
    detail(seed=SEED, path="native", operators=len(EXACT), mismatching=wrong)
    assert not wrong


@pytest.mark.check("gate2.operator.integers", obligations=["G2", "N2"], kind="focused test")
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=short)
def test_integers(device: str, dtype: torch.dtype) -> None:
    """Integer arithmetic saturates or goes through a float where the CPU wraps."""
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(SEED)
    x = torch.randint(limits.min, limits.max, (4000,), generator=generator, dtype=dtype)
    y = torch.randint(1, 100, (4000,), generator=generator, dtype=dtype)
    for operator in INTEGER:
        assert torch.equal(operator(x.to(device), y.to(device)).cpu(), operator(x, y))


@pytest.mark.check("gate2.operator.transcendental", obligations=["G2", "N2"], kind="focused test")
@pytest.mark.parametrize("name", BOUNDED)
def test_transcendental(device: str, name: str, detail: Callable[..., None]) -> None:
    """A function is further from the truth than the machine's specification says."""
    operator, reference = BOUNDED[name]
    bound = tolerance(name)
    worst = {}
    for dtype in (torch.float32, torch.float64):
        x, _ = inputs(dtype)
        dense = torch.linspace(-20, 20, 40001, dtype=torch.float64).to(dtype)
        x = torch.cat([x, dense])
        if name == "sigmoid":  # further down exp(-x) overflows, and the quotient is zero
            x = x.clamp(min=-80 if dtype is torch.float32 else -700)
        with numpy.errstate(all="ignore"):
            exact = reference(x.numpy().astype(numpy.longdouble))
        worst[short(dtype)] = worst_ulp(operator(x.to(device)).cpu(), exact)
    detail(worst_ulp=worst, tolerance=bound._asdict(), seed=SEED)
    assert max(worst.values()) <= bound.value


@pytest.mark.check("gate2.operator.product", obligations=["G2", "N1"], kind="focused test")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=short)
def test_product(device: str, dtype: torch.dtype, detail: Callable[..., None]) -> None:
    """A matrix product is off by more than its length explains, for some shape or layout."""
    generator = torch.Generator().manual_seed(SEED)
    parts = {}
    for rows, inner, columns in SHAPES:
        a = torch.randn(rows, inner, generator=generator, dtype=torch.float64).to(dtype)
        b = torch.randn(inner, columns, generator=generator, dtype=torch.float64).to(dtype)
        exact = torch.from_numpy(
            (a.numpy().astype(numpy.longdouble) @ b.numpy().astype(numpy.longdouble)).astype(float)
        )
        bound = tolerance("product").value * product_bound(a.double(), b.double(), dtype)
        bound = bound + exact.abs() * 2.0**-53  # the reference was itself rounded to f64
        left, right = a.to(device), b.to(device)
        for how, got in {
            "mm": left @ right,
            "left transposed": left.t().contiguous().t() @ right,
            "right transposed": left @ right.t().contiguous().t(),
            "batched": torch.bmm(left.expand(2, -1, -1), right.expand(2, -1, -1))[1],
        }.items():
            part = ((got.cpu().double() - exact).abs() / bound).max().item()
            parts[f"{rows}x{inner}x{columns} {how}"] = part
    detail(seed=SEED, part_of_bound=max(parts.values()), tolerance=tolerance("product")._asdict())
    assert max(parts.values()) <= 1, max(parts, key=lambda key: parts[key])


@pytest.mark.check("gate2.operator.accumulator", obligations=["G2", "N2"], kind="focused test")
def test_accumulator(device: str) -> None:
    """A product or sum accumulates in a narrower type: 4,096 ones stop at 2,048 or 256."""
    ones = torch.ones(1, 4096, device=device)
    assert (ones @ ones.t()).item() == 4096
    assert ones.sum().item() == 4096
    assert ones.half().sum().item() == 4096
    assert ones.bfloat16().sum(dtype=torch.float32).item() == 4096


@pytest.mark.check("gate2.operator.reduction", obligations=["G2", "N1"], kind="focused test")
def test_reduction(device: str, detail: Callable[..., None]) -> None:
    """A reduction over some dimensions gives another value, shape or index than it should."""
    x = torch.randn(6, 50, 70, generator=torch.Generator().manual_seed(SEED))
    there = x.to(device)
    dims: list[Any] = [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)]
    worst = 0.0
    for dim in dims:
        for keep in (False, True):
            exact = x.double().sum(dim, keepdim=keep)
            size = x.numel() // exact.numel()
            bound = gamma(size + 1) * x.double().abs().sum(dim, keepdim=keep)
            for got, truth, limit in (
                (there.sum(dim, keepdim=keep), exact, bound),
                (there.mean(dim, keepdim=keep), exact / size, bound / size),
            ):
                assert got.shape == truth.shape
                worst = max(worst, ((got.cpu().double() - truth).abs() / limit).max().item())
            assert torch.equal(there.amax(dim, keepdim=keep).cpu(), x.amax(dim, keepdim=keep))
            assert torch.equal(there.amin(dim, keepdim=keep).cpu(), x.amin(dim, keepdim=keep))
    for dim in (0, 1, 2):
        assert torch.equal(there.argmax(dim).cpu(), x.argmax(dim))
        assert torch.equal(there.argmin(dim).cpu(), x.argmin(dim))
        values, places = there.max(dim)
        assert torch.equal(values.cpu(), x.max(dim).values)
        assert torch.equal(places.cpu(), x.max(dim).indices)
        for largest, expected in (("max", (x > 2).max(dim)), ("min", (x > 2).min(dim))):
            values, places = getattr(there > 2, largest)(dim)
            assert torch.equal(values.cpu(), expected.values)
            assert torch.equal(places.cpu(), expected.indices)
        assert torch.equal((there > 2).any(dim).cpu(), (x > 2).any(dim))
        assert torch.equal((there > -3).all(dim).cpu(), (x > -3).all(dim))
    assert torch.equal(there.transpose(0, 2).amax(1).cpu(), x.transpose(0, 2).amax(1))
    whole = torch.randint(-1000, 1000, (40, 50))
    assert whole.to(device).sum().item() == whole.sum().item()
    detail(seed=SEED, worst_part_of_bound=worst, tolerance=tolerance("sum")._asdict())
    assert worst <= tolerance("sum").value


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    labels = torch.arange(x.shape[0], device=x.device) % x.shape[1]
    return torch.nn.functional.cross_entropy(x, labels)


def recurrent(cell: Operator, gates: int) -> Operator:
    """A step of a cell with three units, whose input, state and bias all come from `x`."""

    def step(x: torch.Tensor) -> torch.Tensor:
        state = x[:, :3].tanh()
        sizes = (gates * 3, x.shape[1]), (gates * 3, 3)
        into, on = (torch.linspace(-9, 9, m * n).sin().reshape(m, n).to(x) for m, n in sizes)
        bias = x.reshape(-1)[: gates * 3]
        if gates == 4:
            hidden, kept = cell(x, (state, 2 * state), into, on, bias, 2 * bias)
            return hidden + 3 * kept
        return cell(x, state, into, on, bias, 2 * bias)

    return step


GRADIENTS: dict[str, Operator] = {
    "mul_div": lambda x: x * x / (x.abs() + 1),
    "exp_log": lambda x: (x.exp() + 1).log(),
    "tanh_sigmoid": lambda x: x.tanh() * x.sigmoid(),
    "relu": lambda x: x.relu(),
    "where": lambda x: torch.where(x > 0.2, x * 2, x * 3),
    "sum_mean": lambda x: x.sum(0) * x.mean(),
    "product": lambda x: x @ x.t(),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "softmax": lambda x: torch.softmax(x, 0),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (5,), x[0] + 1, x[1]),
    "cross_entropy": cross_entropy,
    "views": lambda x: x.t()[1:, ::2].reshape(-1) * 2,
    "broadcast": lambda x: x[:, None] * x[None, :, :1],
    "index": lambda x: x[torch.tensor([3, 0, 3, -1], device=x.device)] * x,
    "lstm_cell": recurrent(torch.lstm_cell, 4),
    "gru_cell": recurrent(torch.gru_cell, 3),
}


@pytest.mark.check("gate2.operator.gradients", obligations=["G2", "N4"], kind="focused test")
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device: str, name: str) -> None:
    """A backward formula is wrong: the model trains, to a worse place."""
    start = torch.randn(4, 5, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    x = (start + 0.05 * start.sign()).to(device).requires_grad_()  # away from the kinks
    y = x.detach().cpu().requires_grad_()
    weights = torch.randn(GRADIENTS[name](y).shape, dtype=torch.float64)
    (GRADIENTS[name](x) * weights.to(device)).sum().backward()
    (GRADIENTS[name](y) * weights).sum().backward()
    assert x.grad is not None and y.grad is not None
    step = torch.randn(start.shape, dtype=torch.float64)
    slope = (y.grad * step).sum()
    ahead, behind = (
        (GRADIENTS[name](y.detach() + sign * 1e-6 * step) * weights).sum() for sign in (1, -1)
    )
    torch.testing.assert_close((ahead - behind) / 2e-6, slope, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(x.grad.cpu(), y.grad, rtol=1e-12, atol=1e-13)
