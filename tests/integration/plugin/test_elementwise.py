"""Each elementwise operator against the CPU, over dtypes and layouts.

Bits are equal where both sides round once; transcendental functions have the bound of the
instruction set (3 units in the last place) and a bit more for the operations around them. The
CPU's own sqrt is one unit off at times, the device's never.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from layouts import LAYOUTS, SHAPES
from operators import ALL, CASES


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
