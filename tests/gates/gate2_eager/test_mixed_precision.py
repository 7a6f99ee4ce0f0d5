"""torch.autocast and GradScaler: which operator runs in which type, and when a step is left out."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

SHORT_FLOATS = [torch.float16, torch.bfloat16]


@pytest.mark.check("gate2.autocast.casts", obligations=["G2", "N6"], kind="focused test")
@pytest.mark.parametrize("dtype", SHORT_FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_casts(device: str, dtype: torch.dtype) -> None:
    """Under autocast operators raise, or products stay in f32, or exponentials do not."""
    if device == "cpu":
        pytest.skip("PyTorch's lists of what is cast are others for the CPU")
    # Multiples of 1/8 up to 2: their products and sums are exact in f32.
    x = (torch.arange(24.0) % 17 / 8).reshape(4, 6)
    w = (torch.arange(30.0) % 13 / 8).reshape(5, 6)
    b = torch.arange(5.0) / 8
    there, weight, bias = x.to(device), w.to(device).requires_grad_(), b.to(device)
    with torch.autocast(device, dtype=dtype):
        products = {
            "linear": functional.linear(there, weight, bias),
            "mm": torch.mm(there, weight.t()),
            "matmul": there @ weight.t(),
            "addmm": torch.addmm(bias, there, weight.t()),
            "bmm": torch.bmm(there[None], weight.t()[None])[0],
            "baddbmm": torch.baddbmm(bias[None, None], there[None], weight.t()[None])[0],
            "einsum": torch.einsum("ij,kj->ik", there, weight),
        }
        in_f32 = {
            "exp": torch.exp(products["mm"]),
            "log_softmax": torch.log_softmax(products["mm"], 1),
            "sum": products["mm"].sum(),
            "mse_loss": functional.mse_loss(products["mm"], torch.zeros(4, 5, device=device)),
        }
        promoted = torch.addcmul(there[:, :5], products["mm"], products["mm"])
        with torch.autocast(device, enabled=False):
            outside = there @ weight.t()
        products["linear"].sum().backward()
    for name, got in products.items():
        biased = name in ("linear", "addmm", "baddbmm")
        expected = (x.to(dtype).double() @ w.to(dtype).double().t() + biased * b.double()).to(dtype)
        assert got.dtype is dtype, name
        assert torch.equal(got.detach().cpu(), expected), name
    assert {name: value.dtype for name, value in in_f32.items()} == dict.fromkeys(
        in_f32, torch.float32
    )
    assert promoted.dtype is torch.float32
    assert outside.dtype is torch.float32 and torch.equal(outside.detach().cpu(), x @ w.t())
    assert weight.grad is not None and weight.grad.dtype is torch.float32
    assert torch.equal(weight.grad.cpu(), x.sum(0).to(dtype).float().expand(5, 6))
    with pytest.raises(RuntimeError, match="with_logits"), torch.autocast(device, dtype=dtype):
        functional.binary_cross_entropy(torch.sigmoid(there), there)


@pytest.mark.check("gate2.autocast.scaler", obligations=["G2", "N6"], kind="focused test")
def test_scaler(device: str) -> None:
    """A step with an infinite gradient is taken, or the scale does not follow what happened."""
    parameter = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scaler = torch.amp.GradScaler(device, init_scale=1024, growth_interval=2)
    seen = []
    for factor in (1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append((parameter.tolist(), scaler.get_scale()))
    assert seen == [
        ([0.5, 1.5], 1024),
        ([0.5, 1.5], 512),  # left out
        ([0.0, 1.0], 512),
        ([-0.5, 0.5], 1024),  # two good ones in a row
        ([-0.5, 0.5], 512),
        ([-1.0, 0.0], 512),
    ]
    state = scaler.state_dict()
    assert (state["scale"], state["_growth_tracker"]) == (512, 1)
