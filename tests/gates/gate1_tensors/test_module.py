"""A model that moves to the device is still the same model."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.check("gate1.module.tied_weights", obligations=["G1"], kind="focused test")
def test_tied_weights(device: str) -> None:
    """Tied weights come apart on `.to()`: the model trains as another one, with no error."""
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second).to(device)
    assert model[0].weight is model[1].weight
    assert model[0].weight.device.type == device


@pytest.mark.check("gate1.module.optimizer_before_move", obligations=["G1"], kind="focused test")
def test_optimizer_before_move(device: str) -> None:
    """An optimizer made before `.to()` holds other tensors, and trains nothing."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    held = model.weight
    model.to(device)
    assert model.weight is held
    before = model.weight.detach().cpu().clone()
    model(torch.ones(3, 4, device=device)).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight.detach().cpu(), before - 0.5 * 3)
