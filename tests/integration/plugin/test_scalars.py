"""Python numbers given to operators: converted, refused and rounded as on the CPU, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators import ALL

SCALARS: list[Any] = [
    *(0, 1, 2, -1, 3, 127, 200, 300, -129, -300, 40000, 1 << 40),
    *(0.1, -0.7, 1.5, 1e6, 1e30, float("inf"), float("nan"), True),
]
Operator = Callable[[torch.Tensor, Any], torch.Tensor]

OPERATORS: dict[str, Operator] = {
    "add": lambda x, s: x + s,
    "sub": lambda x, s: x - s,
    "rsub": lambda x, s: s - x,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "rdiv": lambda x, s: torch.div(torch.tensor(s), x),
    "add_alpha": lambda x, s: torch.add(x, x.new_ones(()), alpha=s),
    "sub_alpha": lambda x, s: torch.sub(x, x.new_ones(()), alpha=s),
    "rsub_alpha": lambda x, s: torch.rsub(x, x.new_ones(x.shape), alpha=s),
    "add_in_place": lambda x, s: x.clone().add_(s),
    "div_trunc": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "div_floor": lambda x, s: torch.div(x, s, rounding_mode="floor"),
    "fmod": lambda x, s: torch.fmod(x, s),
    "remainder": lambda x, s: torch.remainder(x, s),
    "maximum": lambda x, s: torch.maximum(x, torch.tensor(s)),
    "minimum": lambda x, s: torch.minimum(x, torch.tensor(s)),
    "eq": lambda x, s: x == s,
    "ne": lambda x, s: x != s,
    "lt": lambda x, s: x < s,
    "le": lambda x, s: x <= s,
    "gt": lambda x, s: x > s,
    "ge": lambda x, s: x >= s,
    "bitwise_and": lambda x, s: x & s,
    "bitwise_or": lambda x, s: x | s,
    "bitwise_xor": lambda x, s: x ^ s,
    "logical_and": lambda x, s: torch.logical_and(x, torch.tensor(s)),
    "fill": lambda x, s: x.clone().fill_(s),
    "fill_tensor": lambda x, s: x.clone().fill_(torch.tensor(s)),
    "full": lambda x, s: torch.full((3,), s, dtype=x.dtype, device=x.device),
    "masked_fill": lambda x, s: x.masked_fill(x == x, s),
    "clamp": lambda x, s: x.clamp(-1, s),
    "clamp_min": lambda x, s: x.clamp_min(s),
    "clamp_max": lambda x, s: x.clamp_max(s),
    "threshold": lambda x, s: torch.threshold(x, 1, s),
    "threshold_at": lambda x, s: torch.threshold(x, s, 1),
    "leaky_relu": lambda x, s: torch.nn.functional.leaky_relu(x, s),
    "lerp": lambda x, s: torch.lerp(x, x.new_ones(x.shape), s),
    "addcmul": lambda x, s: torch.addcmul(x, x.new_ones(x.shape), x.new_ones(x.shape), value=s),
    "addcdiv": lambda x, s: torch.addcdiv(x, x.new_ones(x.shape), x.new_ones(x.shape), value=s),
    "scatter": lambda x, s: x.scatter(0, torch.zeros(1, dtype=torch.int64, device=x.device), s),
    "pow_2": lambda x, s: x**2,
}


def inputs(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False] * 32)
    # 64 of them: at the end of a tensor the CPU rounds some products of halves once more.
    numbers = torch.arange(1, 65) if dtype == torch.uint8 else torch.arange(-32, 33)
    numbers = numbers[numbers != 0]  # an integer division by zero traps on the host
    return numbers.to(dtype) / 7 if dtype.is_floating_point else numbers.to(dtype)


def outcome(operator: Operator, x: torch.Tensor, scalar: Any) -> Any:
    try:
        made = operator(x, scalar)
    except NotImplementedError as error:
        return type(error).__name__, ""  # the message names the kernel, which is each device's own
    except (RuntimeError, TypeError, ZeroDivisionError) as error:
        return type(error).__name__, str(error).replace("emu:0", "cpu").splitlines()[0]
    return made.dtype, made.cpu()


def same(got: Any, expected: Any) -> bool:
    if not isinstance(got[1], torch.Tensor) or not isinstance(expected[1], torch.Tensor):
        return (
            bool(got[0] == expected[0]) and got[1] is not None and str(got[1]) == str(expected[1])
        )
    if got[0] != expected[0]:
        return False
    equal = (got[1] == expected[1]) | (got[1] != got[1]) & (expected[1] != expected[1])
    return bool(equal.all())


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_as_the_cpu(name: str, dtype: torch.dtype) -> None:
    x = inputs(dtype)
    divides = (
        name in ("div_trunc", "div_floor", "fmod", "remainder") and not dtype.is_floating_point
    )
    wrong = []
    for scalar in SCALARS:
        if divides and not torch.zeros(1, dtype=dtype).add(scalar).to(dtype).all():
            continue  # zero in the operand's type: it traps on the host
        if name == "fill_tensor" and not dtype.is_floating_point and not abs(scalar) < 2**63:
            continue  # C leaves undefined what an integer is made of these
        expected = outcome(OPERATORS[name], x, scalar)
        got = outcome(OPERATORS[name], x.to("emu"), scalar)
        if not same(got, expected):
            wrong.append(f"{scalar!r}: got {got}, the CPU {expected}")
    assert not wrong, "\n".join(wrong)
