"""Seeds and states of the device's generators do what they say, or sampling is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


@pytest.mark.check("gate1.rng.state", obligations=["G1", "N7"], kind="focused test")
def test_state(accelerator: str) -> None:
    """A saved generator state does not come back, and a resumed run goes another way."""
    module = torch.get_device_module(accelerator)
    module.manual_seed(7)
    seven = module.get_rng_state()
    module.manual_seed(8)
    assert not torch.equal(module.get_rng_state(), seven)
    module.set_rng_state(seven)
    assert torch.equal(module.get_rng_state(), seven)
    with torch.random.fork_rng(devices=[0], device_type=accelerator):
        module.manual_seed(9)
        assert not torch.equal(module.get_rng_state(), seven)
    assert torch.equal(module.get_rng_state(), seven), "fork_rng"
    torch.manual_seed(8)
    assert not torch.equal(module.get_rng_state(), seven), "torch.manual_seed seeds every device"
    torch.manual_seed(7)
    assert torch.equal(module.get_rng_state(), seven)
    own = torch.Generator(device=accelerator).manual_seed(3)
    copy = own.clone_state()
    assert (own.initial_seed(), copy.initial_seed()) == (3, 3)
    copy.manual_seed(4)
    assert own.initial_seed() == 3, "the copy is the same generator"
    assert torch.equal(module.get_rng_state(), seven), "generators are not independent"


@pytest.mark.check("gate1.rng.sampling", obligations=["G1", "N7"], kind="focused test")
def test_sampling(accelerator: str, detail: Callable[..., None]) -> None:
    """Seeds are silently ignored: two runs of one seed differ."""
    module = torch.get_device_module(accelerator)

    def draw(seed: int) -> torch.Tensor:
        module.manual_seed(seed)
        return torch.randn(64, device=accelerator).cpu()

    try:
        first = draw(5)
    except (RuntimeError, NotImplementedError) as error:
        detail(answer="refused", message=str(error)[:300])
        assert "normal_" in str(error)
    else:
        detail(answer="native")
        assert torch.equal(draw(5), first)
        assert not torch.equal(draw(6), first)
