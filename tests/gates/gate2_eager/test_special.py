"""Where operators have no ordinary value: special numbers, the host's numbers, no samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from numerics import mismatches
from tolerances import tolerance

Operator = Callable[..., torch.Tensor]
SHORT_FLOATS = [torch.float16, torch.bfloat16]

# IEEE 754 and C's Annex F say what each gives for zeros, ones, infinities and NaN.
SPECIAL: dict[str, Operator] = {
    "pow": lambda x, y: torch.pow(x, y),
    "fmod": lambda x, y: torch.fmod(x, y),
    "remainder": lambda x, y: torch.remainder(x, y),
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "sigmoid_backward": lambda x, y: torch.ops.aten.sigmoid_backward(x, y),
}


@pytest.mark.check("gate2.operator.special", obligations=["G2", "N2"], kind="focused test")
@pytest.mark.parametrize("name", SPECIAL)
def test_special(device: str, name: str, detail: Callable[..., None]) -> None:
    """A special value comes out as another: NaN for 1, or a zero of the wrong sign."""
    numbers = [0.0, 1.0, 2.0, 0.5, float("inf"), float("nan")]
    points = list(itertools.product([s * x for x in numbers for s in (1, -1)], repeat=2))
    x, y = torch.tensor(points, dtype=torch.float32).T.contiguous()
    expected = SPECIAL[name](x, y)
    got = SPECIAL[name](x.to(device), y.to(device)).cpu()
    if name == "pow":  # of finite values other than 1 only the sign and the size are compared
        ordinary = expected.isfinite() & (expected != 0) & (expected.abs() != 1)
        allowed = tolerance("power").value
        torch.testing.assert_close(got[ordinary], expected[ordinary], rtol=allowed, atol=0)
        got, expected = got[~ordinary], expected[~ordinary]
    wrong = mismatches(got, expected)
    detail(points=len(points), mismatching=wrong)
    assert not wrong


SCALED: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "add": lambda x, s: x + s,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "leaky_relu": lambda x, s: torch.nn.functional.leaky_relu(x, s),
    "addcmul": lambda x, s: torch.addcmul(x, x.new_ones(x.shape), x.new_ones(x.shape), value=s),
    "clamp": lambda x, s: x.clamp(-abs(s), abs(s)),
    "add_alpha": lambda x, s: torch.add(x.new_ones(x.shape), x, alpha=s),
}


@pytest.mark.check("gate2.operator.scalars", obligations=["G2", "N2"], kind="focused test")
@pytest.mark.parametrize("dtype", SHORT_FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_scalars(device: str, dtype: torch.dtype) -> None:
    """A number is rounded to f16 or bf16 before the operation, where PyTorch keeps it in f32."""
    # Whole vectors: at the end of a tensor the CPU rounds some products once more.
    x = (torch.arange(-256, 256) / 7).to(dtype)
    wrong: dict[str, Any] = {}
    for name, operator in SCALED.items():
        for scalar in (0.1, -0.7, 3.3):
            if found := mismatches(operator(x.to(device), scalar).cpu(), operator(x, scalar)):
                wrong[f"{name} {scalar}"] = found
    assert not wrong


@pytest.mark.check("gate2.operator.ignored_targets", obligations=["G2", "N4"], kind="focused test")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_targets(device: str, reduction: str) -> None:
    """A batch of which every sample is ignored puts NaN into the gradients, and training ends."""
    scores = torch.log_softmax(torch.arange(12.0).reshape(4, 3).sin(), 1)
    for target in ([-100, -100, -100, -100], [1, -100, 1, 1], [0, 2, -100, 1]):
        for weight in (None, [1.0, 0.0, 2.0]):
            results = []
            for where in ("cpu", device):
                x = scores.to(where, copy=True).requires_grad_()
                loss = torch.nn.functional.nll_loss(
                    x,
                    torch.tensor(target, device=where),
                    weight=None if weight is None else torch.tensor(weight, device=where),
                    reduction=reduction,
                )
                loss.sum().backward()
                assert x.grad is not None
                results.append((loss.detach().cpu(), x.grad.cpu()))
            allowed = tolerance("likelihood").value
            torch.testing.assert_close(results[1], results[0], rtol=allowed, atol=0, equal_nan=True)
