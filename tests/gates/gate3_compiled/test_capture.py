"""Capture of forward and backward through AOTAutograd, run on native operators.

No code is generated in these checks, and their records say so.
"""

from __future__ import annotations

from collections.abc import Callable

import accounting
import pytest
import subgraph
import torch
from layouts import VIEWS

HOW = "AOTAutograd capture on native operators, no code generation"
BACKEND = "aot_eager"


def captured() -> dict[str, int]:
    """Graphs captured and calls left out of them, as torch counts."""
    counters = torch._dynamo.utils.counters
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "autograd_graphs": counters["aot_autograd"]["ok"],
    }


@pytest.mark.check("gate3.capture.aot_eager", obligations=["B6", "G3"], kind="focused test")
def test_capture(device: str, detail: Callable[..., None]) -> None:
    """`torch.compile` refuses the device, or silently runs the model uncompiled."""
    before = accounting.measure(device)
    outcome = subgraph.run(device, compiler=BACKEND)
    account = accounting.since(device, before)
    seen = captured()
    detail(account.summary(), how=HOW, captured=seen, seed=subgraph.SEED, loss=outcome.loss.item())
    assert seen == {"graphs": 1, "breaks": 0, "autograd_graphs": 1}
    if device != "cpu":
        assert account.ways.get("fallback", {}) == {}
        assert account.total("native") > 0


@pytest.mark.check("gate3.capture.parity", obligations=["B6", "B7", "G3"], kind="focused test")
def test_parity(device: str, detail: Callable[..., None]) -> None:
    """The captured model gives other results than the eager one."""
    eager, other = subgraph.run(device), subgraph.run(device, compiler=BACKEND)
    detail(how=HOW, seed=subgraph.SEED, compared="bits of scores, loss and four gradients")
    assert captured()["graphs"] == 1
    assert torch.equal(other.scores, eager.scores)
    assert torch.equal(other.loss, eager.loss)
    for ours, theirs in zip(other.gradients, eager.gradients, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.check("gate3.capture.views", obligations=["G3"], kind="focused test")
@pytest.mark.parametrize("name", VIEWS)
def test_views(device: str, name: str) -> None:
    """A view inside a captured function loses its offset or stride."""
    base = torch.arange(192, dtype=torch.float32).reshape(4, 6, 8)

    def work(x: torch.Tensor) -> torch.Tensor:
        return VIEWS[name](x) + 1

    got = torch.compile(work, backend=BACKEND, fullgraph=True)(base.to(device))
    assert got.device.type == device
    assert torch.equal(got.cpu(), work(base))
    assert captured()["graphs"] == 1


@pytest.mark.check("gate3.capture.dynamic_shapes", obligations=["G3", "P4"], kind="focused test")
def test_dynamic_shapes(device: str, detail: Callable[..., None]) -> None:
    """Every batch size captures again."""
    network = subgraph.model().to(device)
    call = torch.compile(network, backend=BACKEND, fullgraph=True, dynamic=True)
    sizes = [32, 7, 64, 33, 12, 5, 100]
    for size in sizes:
        images = torch.randn(size, subgraph.INPUTS)
        with torch.no_grad():
            assert torch.equal(call(images.to(device)).cpu(), network(images.to(device)).cpu())
    detail(how=HOW, sizes=sizes, captured=captured())
    assert captured()["graphs"] <= 2


@pytest.mark.check("gate3.compile.default_is_honest", obligations=["G3"], kind="focused test")
def test_default_backend(device: str, detail: Callable[..., None]) -> None:
    """A plain `torch.compile(model)` gives garbage, or an error that does not say what to use."""
    if device == "cpu":
        pytest.skip("cpu has a code generator")
    images, _ = subgraph.batch()
    network = subgraph.model().to(device)
    eager = network(images.to(device)).detach().cpu()
    try:
        got = torch.compile(network)(images.to(device)).detach().cpu()
    except Exception as error:  # whatever torch wraps it in, the text is the check
        detail(answer="refused", message=str(error)[:1000])
        assert BACKEND in str(error), "the message names no backend that works"
    else:
        detail(answer="works")
        torch.testing.assert_close(got, eager)
