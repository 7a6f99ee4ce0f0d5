"""Each elementwise operator against the CPU, over dtypes and layouts.

Bits are equal where both sides round once; transcendental functions have the bound of the
instruction set (3 units in the last place) and a bit more for the operations around them. The
CPU's own sqrt is one unit off at times, the device's never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from layouts import LAYOUTS, SHAPES

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
ALL = (*FLOATS, *INTEGERS, torch.bool)
NUMBERS = (*FLOATS, *INTEGERS)
BITS = (*INTEGERS, torch.bool)


@dataclass(frozen=True)
class Case:
    function: Callable[..., torch.Tensor]
    operands: int
    dtypes: tuple[torch.dtype, ...]
    exact: bool = True
    positive: bool = False


def _row(
    operands: int, dtypes: tuple[torch.dtype, ...], exact: bool = True, positive: bool = False
) -> Callable[[Callable[..., torch.Tensor]], Case]:
    return lambda function: Case(function, operands, dtypes, exact, positive)


CASES: dict[str, Case] = {
    "add": _row(2, ALL)(torch.add),
    "add_scaled": _row(2, NUMBERS, exact=False)(lambda a, b: torch.add(a, b, alpha=3)),
    "sub": _row(2, NUMBERS)(torch.sub),
    "rsub": _row(1, NUMBERS)(lambda a: 3 - a),
    "mul": _row(2, ALL)(torch.mul),
    "div": _row(2, ALL)(torch.div),
    "div_floor": _row(2, FLOATS)(lambda a, b: torch.div(a, b, rounding_mode="floor")),
    "div_floor_integer": _row(2, INTEGERS)(
        lambda a, b: torch.div(a, b * 2 + 1, rounding_mode="floor")
    ),
    "div_trunc": _row(2, FLOATS)(lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    "fmod": _row(2, FLOATS)(torch.fmod),
    "remainder": _row(2, FLOATS)(torch.remainder),
    "remainder_integer": _row(2, INTEGERS)(lambda a, b: torch.remainder(a, b * 2 + 1)),
    "minimum": _row(2, ALL)(torch.minimum),
    "maximum": _row(2, ALL)(torch.maximum),
    "neg": _row(1, NUMBERS)(torch.neg),
    "abs": _row(1, NUMBERS)(torch.abs),
    "reciprocal": _row(1, FLOATS)(torch.reciprocal),
    "sqrt": _row(1, FLOATS, exact=False, positive=True)(torch.sqrt),
    "rsqrt": _row(1, FLOATS, exact=False, positive=True)(torch.rsqrt),
    "exp": _row(1, (*FLOATS, torch.int32), exact=False)(torch.exp),
    "log": _row(1, FLOATS, exact=False, positive=True)(torch.log),
    "tanh": _row(1, FLOATS, exact=False)(torch.tanh),
    "sigmoid": _row(1, FLOATS, exact=False)(torch.sigmoid),
    "silu": _row(1, FLOATS, exact=False)(torch.nn.functional.silu),
    "gelu_tanh": _row(1, FLOATS, exact=False)(
        lambda a: torch.nn.functional.gelu(a, approximate="tanh")
    ),
    "floor": _row(1, NUMBERS)(torch.floor),
    "ceil": _row(1, NUMBERS)(torch.ceil),
    "trunc": _row(1, NUMBERS)(torch.trunc),
    "round": _row(1, NUMBERS)(torch.round),
    "sign": _row(1, ALL)(torch.sign),
    "relu": _row(1, NUMBERS)(torch.relu),
    "leaky_relu": _row(1, FLOATS)(lambda a: torch.nn.functional.leaky_relu(a, 0.25)),
    "threshold": _row(1, NUMBERS)(lambda a: torch.threshold(a, 1, 7)),
    "clamp": _row(1, NUMBERS)(lambda a: torch.clamp(a, 1, 2)),
    "clamp_tensor": _row(3, NUMBERS)(torch.clamp),
    "eq": _row(2, ALL)(torch.eq),
    "ne": _row(2, ALL)(torch.ne),
    "lt": _row(2, ALL)(torch.lt),
    "le": _row(2, ALL)(torch.le),
    "gt": _row(2, ALL)(torch.gt),
    "ge_scalar": _row(1, ALL)(lambda a: a >= 1),
    "logical_and": _row(2, ALL)(torch.logical_and),
    "logical_or": _row(2, ALL)(torch.logical_or),
    "logical_xor": _row(2, ALL)(torch.logical_xor),
    "logical_not": _row(1, ALL)(torch.logical_not),
    "bitwise_and": _row(2, BITS)(torch.bitwise_and),
    "bitwise_or": _row(2, BITS)(torch.bitwise_or),
    "bitwise_xor": _row(2, BITS)(torch.bitwise_xor),
    "bitwise_not": _row(1, BITS)(torch.bitwise_not),
    "isnan": _row(1, FLOATS)(torch.isnan),
    "where": _row(2, ALL)(lambda a, b: torch.where(a > b, a, b)),
    "masked_fill": _row(2, ALL)(lambda a, b: a.masked_fill(b > 1, 1)),
    "addcmul": _row(3, FLOATS, exact=False)(lambda a, b, c: torch.addcmul(a, b, c, value=0.5)),
    "addcdiv": _row(3, FLOATS, exact=False)(lambda a, b, c: torch.addcdiv(a, b, c, value=0.5)),
    "lerp": _row(2, FLOATS, exact=False)(lambda a, b: torch.lerp(a, b, 0.25)),
    "lerp_tensor": _row(3, FLOATS, exact=False)(torch.lerp),
    "pow_2": _row(1, NUMBERS)(lambda a: a**2),
    "pow_half": _row(1, FLOATS, exact=False, positive=True)(lambda a: a**0.5),
    "pow": _row(2, FLOATS[:1], exact=False, positive=True)(torch.pow),
    "promotes": _row(1, ALL)(lambda a: a + torch.ones(a.shape, dtype=torch.int32, device=a.device)),
    "float_scalar": _row(1, ALL)(lambda a: a * 1.5),
}


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int, positive: bool) -> torch.Tensor:
    """Values that a half holds, so that the two sides start from the same bits."""
    generator = torch.Generator().manual_seed(seed)
    low = 1 if positive or dtype == torch.uint8 else -24
    numbers = torch.randint(low, 25, shape, generator=generator)
    return (numbers / 8 if dtype.is_floating_point else numbers).to(dtype)


def compare(got: torch.Tensor, expected: torch.Tensor, exact: bool) -> None:
    assert got.device.type == "emu"
    assert got.shape == expected.shape
    if exact or not expected.dtype.is_floating_point:
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    else:
        bound = 16 * torch.finfo(expected.dtype).eps
        torch.testing.assert_close(got.cpu(), expected, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_against_cpu(name: str, layout: str) -> None:
    case = CASES[name]
    for dtype in case.dtypes:
        for shape in SHAPES:
            place = LAYOUTS[layout] if shape[0] != 0 else LAYOUTS["contiguous"]
            operands = [
                place(values(shape, dtype, seed, case.positive)) for seed in range(case.operands)
            ]
            expected = case.function(*operands)
            on_device = [place(operand.contiguous().to("emu")) for operand in operands]
            compare(case.function(*on_device), expected, case.exact)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_zero_dimensional_and_host_scalars(dtype: torch.dtype) -> None:
    x = values((6,), dtype, 1, False)
    host = x[0]
    compare(x.to("emu") + host, x + host, True)
    compare(x[2].to("emu") * x[3].to("emu"), x[2] * x[3], True)
    compare(host * x.to("emu"), host * x, True)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_in_place_and_out(layout: str) -> None:
    a, b = values((5, 300), torch.float32, 1, False), values((5, 300), torch.float32, 2, False)
    place = LAYOUTS[layout]
    on_host, on_device = place(a.clone()), place(a.to("emu"))
    on_host.add_(b, alpha=2).mul_(3).clamp_(-20, 20)
    on_device.add_(b.to("emu"), alpha=2).mul_(3).clamp_(-20, 20)
    compare(on_device, on_host, True)
    out = place(torch.zeros(5, 300, device="emu"))
    strides = out.stride()
    assert torch.sub(a.to("emu"), b.to("emu"), out=out) is out
    assert out.stride() == strides
    compare(out, a - b, True)


@pytest.mark.parametrize("to", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_conversion(source: torch.dtype, to: torch.dtype) -> None:
    x = values((4, 70), source, 3, to == torch.uint8)
    compare(x.to("emu").to(to), x.to(to), True)
    compare(x.to("emu").t().to(to), x.t().to(to), True)
    assert torch.equal(x.to("emu").to("cpu", to), x.to(to))
    assert torch.equal(x.to("emu", to).cpu(), x.to(to))


def _error(action: Callable[[], object]) -> tuple[type[BaseException], str]:
    with pytest.raises((RuntimeError, IndexError, TypeError)) as raised:
        action()
    return raised.type, str(raised.value).replace("emu:0", "cpu").splitlines()[0]


@pytest.mark.parametrize(
    "act",
    [
        lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
        lambda d: torch.ones(3, dtype=torch.int32, device=d).div_(2),
        lambda d: torch.ones(1, device=d).expand(3).add_(1),
        lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
        lambda d: (
            torch.ones(3, dtype=torch.bool, device=d) - torch.ones(3, dtype=torch.bool, device=d)
        ),
        lambda d: torch.ones(6, device=d)[1:].copy_(torch.ones(6, device=d)[:4]),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(2, 3, device=d)),
        lambda d: torch.ones(2, 3, device=d).view(7),
    ],
)
def test_errors_are_the_cpus(act: Callable[[str], object]) -> None:
    assert _error(lambda: act("emu")) == _error(lambda: act("cpu"))


def test_overlapping_in_place_is_refused() -> None:
    x = torch.arange(6.0, device="emu")
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].add_(x[:-1])
