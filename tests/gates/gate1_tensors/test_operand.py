"""Operands that do not go together: another type, or another device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tolerances import tolerance
from torch.nn import functional

Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Of two tensors of shape (4, 4), the second with zeros and ones: indices and conditions too.
PAIRS: dict[str, Call] = {
    "add": torch.add,
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "addmm_addend": lambda x, y: torch.addmm(y, x, x),
    "baddbmm": lambda x, y: torch.baddbmm(x[None], y[None], x[None]),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]),
    "cat": lambda x, y: torch.cat([x, y]),
    "dot": lambda x, y: torch.dot(x[0], y[0]),
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", x, y),
    "gather": lambda x, y: x.gather(1, y),
    "index_put": lambda x, y: x.clone().index_put_((torch.arange(4).to(x.device),), y),
    "index_select": lambda x, y: x.index_select(0, y[0]),
    "layer_norm": lambda x, y: functional.layer_norm(x, (4,), y[0]),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "linear": functional.linear,
    "lstm_cell": lambda x, y: torch.lstm_cell(x, [x, y], *[torch.cat([x] * 4)] * 2)[1],
    "masked_fill": lambda x, y: x.masked_fill(y, 2.0),
    "matmul": lambda x, y: torch.matmul(x[None], y),
    "mm": lambda x, y: torch.mm(x, y),
    "mm_first": lambda x, y: torch.mm(y, x),
    "mv": lambda x, y: torch.mv(x, y[0]),
    "nll_loss": lambda x, y: functional.nll_loss(x, y[0]),
    "scatter": lambda x, y: x.scatter(1, torch.zeros_like(x, dtype=torch.int64), y),
    "where": lambda x, y: torch.where(x > 0.5, x, y),
}


def _outcome(call: Call, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | str:
    try:
        return call(x, y).cpu()
    except (RuntimeError, IndexError, TypeError) as error:
        return type(error).__name__


@pytest.mark.check("gate1.operand.types", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", PAIRS)
def test_types(device: str, name: str) -> None:
    """Bits of one type are read as another's, beside the tensor too, where the CPU raises."""
    x = torch.linspace(0, 1, 16).view(4, 4)
    for first in (torch.float32, torch.float16):
        for second in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool):
            operands = x.to(first), torch.eye(4).to(second)
            expected = _outcome(PAIRS[name], *operands)
            got = _outcome(PAIRS[name], *(one.to(device) for one in operands))
            if isinstance(expected, str) or isinstance(got, str):
                assert isinstance(got, str) and isinstance(expected, str), (first, second, got)
                assert got == expected, (first, second)
            else:
                half = {first, second} & {torch.float16, torch.bfloat16}
                allowed = tolerance("operands_half" if half else "operands").value
                torch.testing.assert_close(got, expected, rtol=allowed, atol=allowed)
    assert torch.equal((x.to(device) + 1).cpu(), x + 1)


@pytest.mark.check("gate1.operand.devices", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", PAIRS)
def test_devices(accelerator: str, name: str) -> None:
    """A tensor left on the host ends the process or the device's context, or is taken as it is."""
    x = torch.linspace(0, 1, 16).view(4, 4)
    kinds = {"gather": torch.int64, "index_select": torch.int64, "nll_loss": torch.int64}
    y = torch.eye(4).to({"masked_fill": torch.bool, **kinds}.get(name, torch.float32))
    for operands in ((x.to(accelerator), y), (x, y.to(accelerator))):
        with pytest.raises(RuntimeError, match="same device"):
            PAIRS[name](*operands)
    assert torch.equal((x.to(accelerator) + 1).cpu(), x + 1)
