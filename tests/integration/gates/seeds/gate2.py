"""Seeds of gate 2: operators that are a little wrong, on the device only."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from seeds.seed import Seed, in_child, on_device, replace, wrap


class FlatTanh(torch.autograd.Function):
    """The hyperbolic tangent with the derivative of the identity."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


def through_host(original: Any, x: torch.Tensor) -> torch.Tensor:
    """A kernel that copies to the host inside; no table and no counter of fallbacks shows it."""
    return original(x.cpu()).to(x.device)


def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training starts from other weights."""
    import subgraph

    count = [0]

    def model(dtype: torch.dtype = torch.float32) -> torch.nn.Module:
        count[0] += 1
        torch.manual_seed(count[0])
        return subgraph.Classifier().to(dtype)

    monkeypatch.setattr("gate2_eager.classifier.model", model)


HOST_BESSEL = (
    "import torch\n"
    "bessel = torch.special.bessel_j0\n"
    "torch.special.bessel_j0 = lambda x: bessel(x.cpu()).to(x.device)"
)

HOST_CONVOLUTION = (
    "import torch\n"
    "convolve = torch.conv2d\n"
    "torch.conv2d = lambda x, w, b, stride: "
    "convolve(x.cpu(), w.cpu(), b.cpu(), stride=stride).to(x.device)"
)

STATISTICS_LOST = (
    "import torch\n"
    "F = torch.nn.functional\n"
    "norm = F.batch_norm\n"
    "F.batch_norm = lambda x, mean, var, *a, **k: "
    "norm(x, mean.clone() if x.device.type != 'cpu' else mean, var, *a, **k)"
)

UNSEEDED = "import sys, torch\ntorch.get_device_module(sys.argv[1]).manual_seed = lambda seed: None"

HOST_ADD = (
    "import torch\nadd = torch.add\ntorch.add = lambda x, y: add(x.cpu(), y.cpu()).to(x.device)"
)


def rounding(original: Any, x: torch.Tensor, y: Any) -> torch.Tensor:
    """A number of the host is rounded to the tensor's type before the product."""
    rounded = y if isinstance(y, torch.Tensor) else torch.tensor(y, dtype=x.dtype).item()
    return original(x, rounded)


def all_ignored(original: Any, x: torch.Tensor, target: torch.Tensor, **k: Any) -> torch.Tensor:
    """The gradient of a mean over no samples is 0 / 0."""
    return original(x, target, **k) + x.sum() * 0 / target.ne(-100).sum()


def without_accumulate(original: Any, x: torch.Tensor, indices: Any, values: Any, **k: Any) -> Any:
    """The last of several values for an element is all that is left of them."""
    return original(x, indices, values)


def first_put(original: Any, x: torch.Tensor, indices: Any, values: torch.Tensor) -> torch.Tensor:
    """Values arrive in the opposite order."""
    back = torch.arange(len(values) - 1, -1, -1, device=x.device)
    put: torch.Tensor = original(x, [index[back] for index in indices], values[back])
    return put


def copying_first(original: Any, x: torch.Tensor, **keywords: Any) -> torch.Tensor:
    """The right sum, after a copy in a wider type."""
    x.double()
    total: torch.Tensor = original(x, **keywords)
    return total


SEEDS: dict[str, Seed] = {
    "gate2.classifier.loss_curve": on_device(
        "torch.nn.functional.nll_loss", lambda original, *a, **k: original(*a, **k) * 1.0001
    ),
    "gate2.classifier.accuracy": replace("gate2_eager.classifier.EPOCHS", 2),
    "gate2.classifier.no_fallback": on_device("torch.relu", through_host),
    "gate2.classifier.deterministic": unsteady,
    "gate2.subgraph.eager": on_device("torch.Tensor.backward", lambda original, self: None),
    "gate2.subgraph.reference": on_device("torch.relu", lambda original, x: original(x) * 1.00001),
    "gate2.operator.elementwise": on_device(
        "torch.Tensor.abs", lambda original, x: torch.where(x < 0, -x, x)
    ),
    "gate2.operator.integers": on_device(
        "torch.Tensor.__mul__", lambda original, x, y: original(x.float(), y.float()).to(x.dtype)
    ),
    "gate2.operator.transcendental": on_device(
        "torch.exp", lambda original, x: original(x) * (1 + 1e-6)
    ),
    "gate2.operator.product": on_device(
        "torch.Tensor.__matmul__", lambda o, x, y: o(x.bfloat16().to(x.dtype), y)
    ),
    "gate2.operator.accumulator": on_device(
        "torch.Tensor.sum", lambda original, x, **k: original(x, **k).clamp(max=2048)
    ),
    "gate2.operator.reduction": on_device(
        "torch.Tensor.argmax", lambda original, x, dim: original(x, dim) * 0
    ),
    "gate2.operator.gradients": on_device("torch.Tensor.tanh", lambda o, x: FlatTanh.apply(x)),
    "gate2.operator.normalization": on_device(
        "torch.softmax", lambda original, x, dim: original(x, dim) * (1 + 1e-5)
    ),
    "gate2.operator.accumulate": on_device("torch.Tensor.index_put_", without_accumulate),
    "gate2.operator.last_put_wins": on_device("torch.Tensor.index_put_", first_put),
    "gate2.operator.sum_memory": on_device("torch.Tensor.sum", copying_first),
    "gate2.autocast.casts": replace("torch.autocast", lambda *a, **k: contextlib.nullcontext()),
    "gate2.autocast.scaler": wrap(
        "torch.amp.GradScaler.update", lambda original, self: original(self, 1024.0)
    ),
    "gate2.operator.special": on_device(
        "torch.pow", lambda o, x, y: torch.where(y.isinf(), float("nan"), o(x, y))
    ),
    "gate2.operator.scalars": on_device("torch.Tensor.__mul__", rounding),
    "gate2.operator.ignored_targets": on_device("torch.nn.functional.nll_loss", all_ignored),
    "gate2.fallback.unsupported_dtype": in_child(HOST_ADD),
    "gate2.fallback.strict_raises": on_device("torch.special.bessel_j0", through_host),
    "gate2.fallback.counted": in_child(HOST_BESSEL),
    "gate2.fallback.convolution": in_child(HOST_CONVOLUTION),
    "gate2.fallback.random": in_child(UNSEEDED),
    "gate2.fallback.running_statistics": in_child(STATISTICS_LOST),
}
# The classifier is trained once for all checks that look at it; a seed has to be there first.
ALONE = {name for name in SEEDS if name.startswith("gate2.classifier.")}
