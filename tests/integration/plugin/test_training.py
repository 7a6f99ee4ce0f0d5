"""Modules, optimizers and captured graphs on the device, in strict mode, beside the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

STEPS = 60

# Forward, backward and step differ from the CPU's only in the order of sums over at most 64 terms
# (64 eps of the sum) and in exp and log (3 units in the last place). Over 60 steps of a smooth
# model the difference grows with the learning rate; 1e-4 of a loss near 2 leaves room for that
# and is far below what a wrong gradient gives (over 1e-2 after ten steps).
LOSS_BOUND = 1e-4


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, 10, (320,), generator=generator)
    x = torch.randn(320, 64, generator=generator) + functional.one_hot(y, 64) * 3.0
    return x, y


def train(net: nn.Module, optimizer: torch.optim.Optimizer, device: str) -> list[float]:
    x, y = (t.to(device) for t in data())
    losses = []
    for step in range(STEPS):
        rows = slice(64 * (step % 5), 64 * (step % 5) + 64)
        loss = functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


@pytest.mark.parametrize("foreach", [False, None])
def test_classifier(foreach: bool | None) -> None:
    curves = {}
    for device in ("cpu", "emu"):
        net = model().to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, foreach=foreach)
        torch.emu.reset_execution_counts()
        curves[device] = train(net, optimizer, device)
    counts = torch.emu.execution_counts()
    assert counts["fallback"] == {}
    assert counts["native"]["aten::mm"] >= 2 * STEPS
    assert curves["emu"][-1] < 0.1 * curves["emu"][0]
    difference = max(abs(a - b) for a, b in zip(curves["emu"], curves["cpu"], strict=True))
    assert difference <= LOSS_BOUND, difference


def test_an_optimizer_made_before_the_move_trains() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    before = [id(p) for p in net.parameters()]
    net.to("emu")
    assert [id(p) for p in net.parameters()] == before
    curve = train(net, optimizer, "emu")
    assert curve[-1] < 0.1 * curve[0]


def test_tied_weights_stay_tied() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    net[1].weight = net[0].weight
    net.to("emu")
    assert net[0].weight is net[1].weight and net[0].weight.device.type == "emu"
    net.to("cpu")
    assert net[0].weight is net[1].weight and net[0].weight.device.type == "cpu"
    assert not torch.__future__.get_swap_module_params_on_conversion()


@pytest.mark.parametrize("dynamic", [False, True])
def test_captured_graph_equals_eager(dynamic: bool) -> None:
    net = model().to("emu")
    captured = torch.compile(net, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    x, y = (t.to("emu") for t in data())
    for rows in (slice(0, 64), slice(64, 96)):
        grads = []
        for forward in (net, captured):
            net.zero_grad()
            loss = functional.cross_entropy(forward(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            grads.append([p.grad.clone() for p in net.parameters() if p.grad is not None])
        for eager, compiled in zip(*grads, strict=True):
            torch.testing.assert_close(compiled.cpu(), eager.cpu(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "act",
    [torch.neg, lambda x: x.amax(0), lambda x: x @ x],
    ids=["pointwise", "reduction", "product"],
)
def test_the_default_backend_says_what_works(act: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(Exception, match="aot_eager"):
        torch.compile(act)(torch.ones(4, 4, device="emu"))


def test_streams_events_and_pinned_copies() -> None:
    x = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    assert x.is_pinned()
    stream = torch.emu.Stream()
    with stream:
        y = x.to("emu", non_blocking=True)
        z = y * 2
        event = stream.record_event()
    torch.emu.current_stream().wait_event(event)
    assert torch.equal((z + 1).cpu(), x * 2 + 1)
    event.synchronize()
    assert event.query() and stream.query()
    start, end = torch.emu.Event(enable_timing=True), torch.emu.Event(enable_timing=True)
    start.record()
    for _ in range(4):
        z = z + 1
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0


def test_activity_names_the_operator() -> None:
    x = torch.ones(4096, device="emu")
    with torch.emu.kernel_activity() as kernels:
        y = x + x
        torch.mm(y[:4].reshape(2, 2), y[:4].reshape(2, 2))
    named = {(k.operator, k.activity.program) for k in kernels}
    assert ("aten::add.Tensor", "add_f32") in named
    assert ("aten::mm", "matmul_f32") in named
    assert all(k.activity.ticks > 0 for k in kernels if k.activity.program)


def test_generator_states() -> None:
    torch.manual_seed(7)
    assert torch.emu.initial_seed() == 7
    state = torch.emu.get_rng_state()
    torch.emu.manual_seed(9)
    assert torch.emu.initial_seed() == 9
    torch.emu.set_rng_state(state)
    assert torch.emu.initial_seed() == 7
    generator = torch.Generator(device="emu")
    generator.manual_seed(3)
    assert generator.clone_state().initial_seed() == 3
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.emu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_memory_is_counted() -> None:
    before = torch.emu.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="emu")
    assert torch.emu.memory_allocated() - before >= 1 << 20
    del x
    assert torch.emu.memory_allocated() == before
    assert torch.emu.get_device_properties().multi_processor_count > 0
    free, total = torch.emu.mem_get_info()
    assert 0 < free <= total
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 42, dtype=torch.uint8, device="emu")
