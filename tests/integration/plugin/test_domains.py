"""Which types each elementwise operator takes: the CPU's, no more and no fewer.

What an operator refuses on the CPU has no meaning that a program could give it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from operators import ALL, CASES, INTEGERS

mse_loss = torch.nn.functional.mse_loss
OPERATORS: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    **{name: (case.function, case.operands) for name, case in CASES.items()},
    "clamp_bool": (lambda a: torch.clamp(a, False, True), 1),
    "clamp_min_tensor": (lambda a, b: torch.clamp(a, min=b), 2),
    "mse_loss_mean": (lambda a, b: mse_loss(a, b), 2),
    "mse_loss_sum": (lambda a, b: mse_loss(a, b, reduction="sum"), 2),
    "mse_loss_backward": (lambda a, b: torch.ops.aten.mse_loss_backward(a[0], a, b, 2), 2),
    "shift_left": (torch.bitwise_left_shift, 2),
    "shift_right": (torch.bitwise_right_shift, 2),
    "fill": (lambda a: a.clone().fill_(1), 1),
}
# Types that the CPU has and the device has no program for: they go by the policy for fallbacks.
WITHOUT_PROGRAM = {
    *(("pow", dtype) for dtype in (torch.float64, *INTEGERS)),
    *(("mse_loss_backward", dtype) for dtype in INTEGERS),
}


def refuses(function: Callable[..., torch.Tensor], operands: list[torch.Tensor]) -> bool:
    try:
        function(*operands)
    except RuntimeError:  # NotImplementedError too
        return True
    return False


@pytest.mark.parametrize("name", OPERATORS)
def test_takes_what_the_cpu_takes(name: str) -> None:
    function, count = OPERATORS[name]
    wrong = []
    for dtype in ALL:
        operands = [torch.ones(3, dtype=dtype)] * count
        expected = refuses(function, operands) or (name, dtype) in WITHOUT_PROGRAM
        if refuses(function, [operand.to("emu") for operand in operands]) != expected:
            wrong.append(f"{dtype}: the CPU {'refuses' if expected else 'takes'} it")
    assert not wrong, "\n".join(wrong)
