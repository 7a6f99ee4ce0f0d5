"""The fallback policy does what it says, and its counters see what happens."""

from __future__ import annotations

import json

import pytest
import torch
from child import run_python
from tolerances import tolerance

# Takes an operator that no device program exists for, in a process of its own policy.
FALL_BACK = """
import json, sys, warnings, torch
x = torch.linspace(0, 1, 5).to(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = torch.special.bessel_j0(x)
    z = torch.special.bessel_j0(x)
expected = torch.special.bessel_j0(torch.linspace(0, 1, 5))
counts = torch.get_device_module(sys.argv[1]).execution_counts()["fallback"]
print(json.dumps({
    "right": bool(torch.equal(y.cpu(), expected)) and y.device.type == sys.argv[1],
    "counts": counts,
    "warnings": [str(w.message) for w in caught],
}))
"""


@pytest.mark.check("gate2.fallback.strict_raises", obligations=["G2", "Q3"], kind="focused test")
def test_strict(accelerator: str) -> None:
    """Strict mode lets an operator run on the host, or its error does not say what to do."""
    with pytest.raises((RuntimeError, NotImplementedError)) as raised:
        torch.special.bessel_j0(torch.ones(3, device=accelerator))
    text = str(raised.value)
    assert "special_bessel_j0" in text
    assert "TORCH_EMU_FALLBACK" in text
    assert all(word in text for word in ("error", "warn", "allow")), text


@pytest.mark.check("gate2.fallback.counted", obligations=["G2", "Q3"], kind="focused test")
@pytest.mark.parametrize("policy", ["allow", "warn"])
def test_counted(accelerator: str, policy: str) -> None:
    """A fallback gives a wrong value, is not counted, or warns where it should not."""
    done = run_python(FALL_BACK, accelerator, env={"TORCH_EMU_FALLBACK": policy})
    assert done.status == 0, done.told
    seen = json.loads(done.stdout)
    assert seen["right"], done.told
    assert sum(n for name, n in seen["counts"].items() if "bessel_j0" in name) == 2, seen
    told = [text for text in seen["warnings"] if "bessel_j0" in text]
    assert len(told) == (1 if policy == "warn" else 0), seen["warnings"]


# A type that the device lacks, in an operator that it has.
UNSUPPORTED = """
import json, sys, torch
x = torch.tensor([1 + 2j, 3 - 1j])
y = torch.add(x.to(sys.argv[1]), x.to(sys.argv[1]))
counts = torch.get_device_module(sys.argv[1]).execution_counts()
print(json.dumps({
    "right": bool(torch.equal(y.cpu(), x + x)) and y.device.type == sys.argv[1],
    "fallback": counts["fallback"].get("aten::add.Tensor", 0),
    "native": counts["native"].get("aten::add.Tensor", 0),
}))
"""


@pytest.mark.check(
    "gate2.fallback.unsupported_dtype", obligations=["G2", "Q3"], kind="focused test"
)
def test_unsupported_dtype(accelerator: str) -> None:
    """A native operator refuses a type under `allow`, or counts as native what the host ran."""
    done = run_python(UNSUPPORTED, accelerator, env={"TORCH_EMU_FALLBACK": "allow"})
    assert done.status == 0, done.told
    seen = json.loads(done.stdout)
    assert seen == {"right": True, "fallback": 1, "native": 0}, done.told
    strict = run_python(UNSUPPORTED, accelerator, env={"TORCH_EMU_FALLBACK": "error"})
    assert strict.status != 0
    assert all(
        word in strict.stderr for word in ("aten::add.Tensor", "ComplexFloat", "TORCH_EMU_FALLBACK")
    ), strict.told


# Forward and backward of a convolution, plain and transposed, on the device and on the CPU.
CONVOLUTION = """
import json, sys, torch
def run(where):
    made = []
    for convolve, shape in ((torch.conv2d, (4, 2, 3, 3)), (torch.conv_transpose2d, (2, 4, 3, 3))):
        x = torch.linspace(-1, 1, 144).reshape(2, 2, 6, 6).to(where).requires_grad_()
        w = torch.linspace(-2, 2, 72).reshape(shape).to(where).requires_grad_()
        b = torch.linspace(0, 1, 4).to(where).requires_grad_()
        y = convolve(x, w, b, stride=2)
        y.square().sum().backward()
        made += [y.detach(), x.grad, w.grad, b.grad]
    return made
there = run(sys.argv[1])
here = run("cpu")
counts = torch.get_device_module(sys.argv[1]).execution_counts()["fallback"]
print(json.dumps({
    "right": all(torch.allclose(a.cpu(), b) and a.device.type == sys.argv[1]
                 for a, b in zip(there, here)),
    "forward": counts.get("aten::convolution_overrideable", 0),
    "backward": counts.get("aten::convolution_backward_overrideable", 0),
}))
"""


@pytest.mark.check("gate2.fallback.convolution", obligations=["G2", "Q3"], kind="focused test")
def test_convolution(accelerator: str) -> None:
    """A convolution ends in an assertion under `allow`, is not counted, or is refused unnamed."""
    done = run_python(CONVOLUTION, accelerator, env={"TORCH_EMU_FALLBACK": "allow"})
    assert done.status == 0, done.told
    assert json.loads(done.stdout) == {"right": True, "forward": 2, "backward": 2}, done.told
    strict = run_python(CONVOLUTION, accelerator, env={"TORCH_EMU_FALLBACK": "error"})
    assert strict.status != 0
    assert all(
        word in strict.stderr
        for word in (
            "NotImplementedError",
            "convolution",
            "Float[4, 2, 3, 3]",
            "TORCH_EMU_FALLBACK",
        )
    ), strict.told


# Layers that keep statistics, trained on the device and on the CPU; then what they do with them.
STATISTICS = """
import copy, json, sys, torch
wrong = {}
def differ(pairs):
    allowed = float(sys.argv[2])
    return [n for n, (a, b) in enumerate(pairs) if not torch.allclose(a.cpu(), b, allowed, allowed)]
SHAPES = {"BatchNorm1d": (8, 4), "BatchNorm2d": (3, 4, 5, 5), "InstanceNorm1d": (3, 4, 9)}
for name, shape in SHAPES.items():
    here = getattr(torch.nn, name)(4, track_running_stats=True)
    there = copy.deepcopy(here).to(sys.argv[1])
    generator = torch.Generator().manual_seed(31)
    for _ in range(5):
        x = torch.randn(shape, generator=generator) * 3 + 7
        pairs = [(there(x.to(sys.argv[1])), here(x))]
    pairs += zip(there.buffers(), here.buffers())
    there.eval(), here.eval()
    pairs.append((there(x.to(sys.argv[1])), here(x)))
    wrong[name] = differ(pairs)
mean, var = torch.zeros(4), torch.ones(4)
moved = [one.to(sys.argv[1]) for one in (mean, var)]
torch.batch_norm_update_stats(x[..., 0], mean, var, 0.1)
torch.batch_norm_update_stats(x[..., 0].to(sys.argv[1]), *moved, 0.1)
wrong["update"] = differ(zip(moved, (mean, var)))
print(json.dumps({name: found for name, found in wrong.items() if found}))
"""


@pytest.mark.check(
    "gate2.fallback.running_statistics", obligations=["G2", "Q3"], kind="focused test"
)
def test_running_statistics(accelerator: str) -> None:
    """What the host writes beside its results is lost, and a trained layer is wrong in use."""
    allowed = str(tolerance("batch_statistics").value)
    done = run_python(STATISTICS, accelerator, allowed, env={"TORCH_EMU_FALLBACK": "allow"})
    assert done.status == 0, done.told
    assert json.loads(done.stdout) == {}, done.told


# Operators that draw numbers, from one state of the device's generator, and from another.
DRAWS = """
import json, sys, torch
there, device = sys.argv[1], torch.get_device_module(sys.argv[1])
dropout = torch.nn.Dropout(0.3)
x = torch.ones(99, device=there)
draws = {
    "normal": lambda **g: torch.randn(99, device=there, **g),
    "uniform": lambda **g: torch.rand(99, device=there, **g),
    "integers": lambda **g: torch.randint(0, 1 << 30, (99,), device=there, **g),
    "permutation": lambda **g: torch.randperm(99, device=there, **g),
    "bernoulli": lambda **g: torch.bernoulli(x / 2, **g),
    "multinomial": lambda **g: torch.multinomial(x, 50, **g),
    "exponential": lambda **g: torch.empty(99, device=there).exponential_(**g),
}
def same(a, b):
    return torch.equal(a.cpu(), b.cpu())
told = {}
host = torch.get_rng_state()
for name, draw in {**draws, "dropout": lambda: dropout(x)}.items():
    device.manual_seed(5)
    state, first, second = device.get_rng_state(), draw(), draw()
    device.manual_seed(5)
    again = draw()
    device.manual_seed(6)
    other = draw()
    device.set_rng_state(state)
    told[name] = [same(first, again), same(first, draw()), same(second, draw()),
                  same(first, second), same(first, other)]
    if name in draws:
        default = device.get_rng_state()
        own = [torch.Generator(there).manual_seed(5) for _ in range(2)]
        mine = [draw(generator=one) for one in own]
        told[name] += [same(*mine), same(mine[0], first)]
        told[name] += [torch.equal(default, device.get_rng_state())]
print(json.dumps({"told": told, "host": torch.equal(host, torch.get_rng_state())}))
"""


@pytest.mark.check("gate2.fallback.random", obligations=["G2", "N7", "Q3"], kind="focused test")
def test_random(accelerator: str) -> None:
    """The device's seed, state or generator does not decide what is drawn, or draws repeat."""
    done = run_python(DRAWS, accelerator, env={"TORCH_EMU_FALLBACK": "allow"})
    assert done.status == 0, done.told
    seen = json.loads(done.stdout)
    repeats, own = [True, True, True, False, False], [True, True, True]
    for name, answers in seen["told"].items():
        assert answers == repeats + (own if name != "dropout" else []), name
    assert seen["host"], "the CPU's generator was used"
