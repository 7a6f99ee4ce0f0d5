"""Softmax and layer norm over rows of many lengths, against float64 and a running error bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from numerics import UNIT, gamma
from tolerances import tolerance

SEED = 11
EPSILON = 1e-5
# One, shorter than a vector, not a power of two, as long as a block of lanes, and longer.
LENGTHS = [1, 7, 64, 1000, 1024, 4096, 4097, 9001]
ROWS = 5
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ULPS = 2 * 2  # of exp and log, in units: their bounds in the instruction set are 2 ulp


def rounding(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The error of rounding a result to a half, or nothing: others are not rounded once more."""
    if dtype in UNIT:
        return torch.zeros_like(exact)
    info = torch.finfo(dtype)
    return exact.abs() * info.eps / 2 + info.smallest_normal * info.eps


def softmax_bound(x: torch.Tensor, logarithm: bool, computed: torch.dtype) -> torch.Tensor:
    """Running error of x - max, exp, sum, and the quotient (or log and the difference)."""
    unit = UNIT[computed]
    shift = x - x.amax(1, keepdim=True)
    powers = shift.exp()
    share = powers / powers.sum(1, keepdim=True)
    power = unit * (shift.abs() + ULPS)  # relative, of each exponential
    total = (share * power).sum(1, keepdim=True) + gamma(x.shape[1], computed)
    if not logarithm:
        return share * (power + total + 2 * unit) + torch.finfo(computed).smallest_normal
    normaliser = powers.sum(1, keepdim=True).log()
    return unit * (shift.abs() + ULPS * normaliser.abs() + (shift - normaliser).abs()) + total


def layer_norm_bounds(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, computed: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of the result, the mean and 1 / root: running error of these, and of the scaling."""
    unit, summed = UNIT[computed], gamma(x.shape[1] + 2, computed)
    centred = x - x.mean(1, keepdim=True)
    mean = summed * x.abs().mean(1, keepdim=True)
    off = mean + unit * centred.abs()
    variance = centred.square().mean(1, keepdim=True)
    spread = 2 * (centred.abs() * off).mean(1, keepdim=True) + off.square().mean(1, keepdim=True)
    scale = (variance + EPSILON).rsqrt()
    relative = (spread + summed * variance) * scale.square() / 2 + 3 * unit
    plain = (centred * scale * weight).abs()
    norm = weight.abs() * scale * off + plain * (relative + 4 * unit) + 2 * unit * bias.abs()
    return norm, mean, scale * relative


@pytest.mark.check("gate2.operator.normalization", obligations=["G2", "N1"], kind="focused test")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_normalization(device: str, dtype: torch.dtype, detail: Callable[..., None]) -> None:
    """A row's softmax or norm is off: its sum, its largest element, or the row's end is wrong."""
    generator = torch.Generator().manual_seed(SEED)
    computed = dtype if dtype in UNIT else torch.float32
    references = 2 if dtype == torch.float64 else 1  # the reference is rounded as well
    worst, points = 0.0, 0
    for length in LENGTHS:
        x = torch.randn(ROWS, length, generator=generator, dtype=torch.float64).mul_(4).to(dtype)
        weight, bias = (torch.randn(length, generator=generator).to(dtype) for _ in range(2))
        wide, wide_weight, wide_bias = (tensor.double() for tensor in (x, weight, bias))
        there = x.to(device)
        normed, mean, rstd = torch.native_layer_norm(
            there, (length,), weight.to(device), bias.to(device), EPSILON
        )
        of_norm = torch.nn.functional.layer_norm(wide, (length,), wide_weight, wide_bias, EPSILON)
        of_mean = wide.mean(1, keepdim=True)
        of_rstd = wide.var(1, keepdim=True, correction=0).add(EPSILON).rsqrt()
        norm, centre, scale = layer_norm_bounds(wide, wide_weight, wide_bias, computed)
        for got, exact, bound in (
            (torch.softmax(there, 1), wide.softmax(1), softmax_bound(wide, False, computed)),
            (torch.log_softmax(there, 1), wide.log_softmax(1), softmax_bound(wide, True, computed)),
            (normed, of_norm, norm),
            (mean, of_mean, centre),
            (rstd, of_rstd, scale),
        ):
            assert got.dtype == dtype and got.shape == exact.shape
            limit = references * bound + rounding(exact, dtype)
            off = (got.cpu().double() - exact).abs()
            worst = max(worst, torch.where(off == 0, 0.0, off / limit).max().item())
            points += exact.numel()
    # The other dimension, and what has no ordinary value.
    x = torch.tensor(
        [[1.0, -torch.inf, 2.0], [-torch.inf] * 3, [1, torch.inf, 0], [1, torch.nan, 0]]
    )
    allowed = tolerance("softmax_of_three").value
    for function in (torch.softmax, torch.log_softmax):
        got, expected = function(x.t().contiguous().to(device), 0).cpu(), function(x.t(), 0)
        torch.testing.assert_close(got, expected, rtol=allowed, atol=0, equal_nan=True)
    detail(seed=SEED, points=points, worst_part_of_bound=worst)
    assert worst <= tolerance("normalization").value
