"""Tensors and a reset of their device."""

from __future__ import annotations

import json

import pytest
from child import run_python

SCRIPT = """
import json
import emu_runtime, torch

old = torch.ones(1000, device="emu")
stream = torch.Stream(device="emu")
emu_runtime.Device(0).reset()
new = torch.full((1000,), 2.0, device="emu")
uses = dict(
    add=lambda: old + 1,
    add_in_place=lambda: old.add_(1),
    mix=lambda: new.add_(old),
    matmul=lambda: old.view(10, 100) @ new.view(100, 10),
    total=lambda: old.sum().item(),
    to_host=lambda: old.cpu(),
    from_host=lambda: old.copy_(torch.zeros(1000)),
    zero=lambda: old.zero_(),
)
wrong = {}
for name, use in uses.items():
    try:
        use()
        torch.accelerator.synchronize()
        wrong[name] = "worked"
    except RuntimeError as error:
        if "before a reset" not in str(error):
            wrong[name] = str(error)
del old
fresh = [torch.Stream(device="emu") for _ in range(9)]
with fresh[-1]:
    total = (new * 2).sum()
fresh[-1].synchronize()
print(json.dumps([wrong, total.item(), new.cpu().unique().tolist()]))
"""


@pytest.mark.check("gate1.reset.old_tensors", obligations=["G1", "Q8"], kind="focused test")
def test_old_tensors(accelerator: str) -> None:
    """A tensor from before a reset reads or writes the memory of a new one, or ends its work."""
    if accelerator != "emu":
        pytest.skip(f"{accelerator} has no reset here: its vendor knows how")
    done = run_python(SCRIPT)
    assert done.status == 0, done.told
    assert json.loads(done.stdout) == [{}, 4000.0, [2.0]]
