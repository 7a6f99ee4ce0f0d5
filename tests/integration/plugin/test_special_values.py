"""Each elementwise operator on every combination of special values, against the CPU.

NaN, infinities and the sign of a zero are where the CPU has them; finite values are as close as
for ordinary ones.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from operators import CASES, Case


def special(dtype: torch.dtype) -> list[float]:
    if dtype == torch.bool:
        return [0, 1]
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)  # without the least: dividing it by -1 traps on the host
        return [0, 1, 2, 3, limits.max, *([-1, -2, -3, -limits.max] if limits.min else [])]
    limits = torch.finfo(dtype)
    numbers = [
        0.0,
        1,
        2,
        3,
        0.5,
        2.5,
        limits.smallest_normal,
        limits.smallest_normal / 4,
        limits.max,
    ]
    infinite = [float("inf"), float("nan")]
    return [sign * value for value in numbers + infinite for sign in (1, -1)]


def grid(case: Case, dtype: torch.dtype) -> list[torch.Tensor]:
    points = list(itertools.product(special(dtype), repeat=case.operands))
    return list(
        torch.tensor(points, dtype=torch.float64 if dtype.is_floating_point else torch.int64)
        .to(dtype)
        .T
    )


def differing(case: Case, got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where `got` is not what the CPU has."""
    if not expected.dtype.is_floating_point:
        return got != expected
    limits = torch.finfo(expected.dtype)
    bound = 0.0 if case.exact else 16 * limits.eps
    wide, truth = got.double(), expected.double()
    near = (wide - truth).abs() <= bound * truth.abs() + (
        bound and 16 * limits.smallest_normal * limits.eps
    )
    same = (got == expected) | (got.isnan() & expected.isnan()) | near
    signed = (got != 0) | (got.signbit() == expected.signbit())
    return ~(same & (signed | case.either_zero))


@pytest.mark.parametrize("name", CASES)
def test_as_the_cpu(name: str) -> None:
    case = CASES[name]
    wrong = []
    for dtype in case.dtypes:
        # Whole vectors: at the end of a tensor the CPU rounds some products of halves once more.
        operands = [operand.repeat(64) for operand in grid(case, dtype)]
        if name in (
            "fmod",
            "remainder",
        ):  # the CPU's is NaN where the quotient overflows, C's is exact
            a, b = operands
            usual = ~((a / b).isinf() & a.isfinite() & (b != 0))
            operands = [operand[usual] for operand in operands]
        expected = case.function(*operands)
        got = case.function(*(operand.to("emu") for operand in operands)).cpu()
        assert got.dtype == expected.dtype
        for place in differing(case, got, expected).nonzero().flatten().tolist():
            inputs = [operand[place].item() for operand in operands]
            wrong.append(f"{dtype} {inputs}: got {got[place]}, the CPU {expected[place]}")
    assert not wrong, "\n".join(wrong[:40])
