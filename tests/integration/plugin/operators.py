"""Each elementwise operator as a function of tensors, for comparisons with the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

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
    exact: bool = True  # both sides round once
    positive: bool = False  # defined above zero only
    either_zero: bool = (
        False  # of two zeros the CPU takes one or the other, by type and vector width
    )


def _row(
    operands: int,
    dtypes: tuple[torch.dtype, ...],
    exact: bool = True,
    positive: bool = False,
    either_zero: bool = False,
) -> Callable[[Callable[..., torch.Tensor]], Case]:
    return lambda function: Case(function, operands, dtypes, exact, positive, either_zero)


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
    "minimum": _row(2, ALL, either_zero=True)(torch.minimum),
    "maximum": _row(2, ALL, either_zero=True)(torch.maximum),
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
    "relu": _row(1, NUMBERS, either_zero=True)(torch.relu),
    "leaky_relu": _row(1, FLOATS)(lambda a: torch.nn.functional.leaky_relu(a, 0.25)),
    "threshold": _row(1, NUMBERS)(lambda a: torch.threshold(a, 1, 7)),
    "clamp": _row(1, NUMBERS, either_zero=True)(lambda a: torch.clamp(a, 1, 2)),
    "clamp_tensor": _row(3, NUMBERS, either_zero=True)(torch.clamp),
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
    "pow_3": _row(1, FLOATS, exact=False)(lambda a: a**3),
    "pow_minus_2": _row(1, FLOATS, exact=False)(lambda a: a**-2),
    "pow_minus_half": _row(1, FLOATS, exact=False, positive=True)(lambda a: a**-0.5),
    "pow": _row(2, (torch.float32, torch.float16, torch.bfloat16), exact=False, positive=True)(
        torch.pow
    ),
    "clamp_min": _row(1, NUMBERS, either_zero=True)(lambda a: torch.clamp_min(a, 1)),
    "clamp_max": _row(1, NUMBERS, either_zero=True)(lambda a: torch.clamp_max(a, 1)),
    "frac": _row(1, FLOATS)(torch.frac),
    "sgn": _row(1, NUMBERS)(torch.sgn),
    "rsub_scaled": _row(1, NUMBERS)(lambda a: torch.rsub(a, a, alpha=2)),
    "lerp_high": _row(2, FLOATS, exact=False)(lambda a, b: torch.lerp(a, b, 0.75)),
    "tanh_backward": _row(2, FLOATS, exact=False)(torch.ops.aten.tanh_backward),
    "sigmoid_backward": _row(2, FLOATS, exact=False)(torch.ops.aten.sigmoid_backward),
    "silu_backward": _row(2, FLOATS, exact=False)(torch.ops.aten.silu_backward),
    "threshold_backward": _row(2, NUMBERS)(lambda a, b: torch.ops.aten.threshold_backward(a, b, 1)),
    "squared_difference": _row(2, FLOATS)(
        lambda a, b: torch.nn.functional.mse_loss(a, b, reduction="none")
    ),
    "promotes": _row(1, ALL)(lambda a: a + torch.ones(a.shape, dtype=torch.int32, device=a.device)),
    "float_scalar": _row(1, ALL)(lambda a: a * 1.5),
}
