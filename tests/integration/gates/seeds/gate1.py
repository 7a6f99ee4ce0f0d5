"""Seeds of gate 1: most are faults that users of some backend met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from seeds.seed import Seed, in_child, on_device, replace, wrap


def lose_last(original: Any, self: torch.Tensor, *rest: Any, **keywords: Any) -> torch.Tensor:
    """A copy to the device leaves its last element behind."""
    result: torch.Tensor = original(self, *rest, **keywords)
    if result.device.type != "cpu" and self.device.type == "cpu" and result.numel():
        result.view(-1)[-1:].zero_()
    return result


def through_bfloat16(original: Any, self: torch.Tensor, *rest: Any, **keywords: Any) -> Any:
    if rest and rest[0] is torch.float16:
        return original(original(self, torch.bfloat16), torch.float16)
    return original(self, *rest, **keywords)


def only_contiguous(original: Any, self: torch.Tensor, *rest: Any, **keywords: Any) -> Any:
    """An in-place operation on a strided tensor does nothing."""
    return original(self, *rest, **keywords) if self.is_contiguous() else self


def forgiving(original: Any, self: torch.Tensor, *rest: Any, **keywords: Any) -> Any:
    try:
        return original(self, *rest, **keywords)
    except RuntimeError:
        return self


def one_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `full` is the same memory."""
    original = torch.full
    kept: list[torch.Tensor] = []

    def full(shape: Any, value: Any, **keywords: Any) -> torch.Tensor:
        if not kept:
            kept.append(original((2000,), 0.0, **keywords))
        return kept[0][: shape[0]].fill_(value)

    monkeypatch.setattr(torch, "full", full)


def leaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is freed stays on the books."""
    count = [0]

    def allocated() -> int:
        count[0] += 1 << 27
        return count[0]

    monkeypatch.setattr(torch.get_device_module("emu"), "memory_allocated", allocated)


def bare_error(original: Any, *rest: Any, **keywords: Any) -> Any:
    if rest and isinstance(rest[0], int) and rest[0] > 1 << 40:
        raise RuntimeError("error")
    return original(*rest, **keywords)


def any_index(original: Any, *rest: Any, **keywords: Any) -> Any:
    keywords["device"] = "emu"
    return original(*rest, **keywords)


def truncate(original: Any, value: object, path: Path) -> None:
    original(value, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first_index(original: Any, path: Path, map_location: Any = None, **keywords: Any) -> Any:
    return original(path, map_location="emu:0", **keywords)


class SleepyEvent(torch.Event):
    def synchronize(self) -> None:
        """Returns at once."""

    def elapsed_time(self, end_event: torch.Event) -> float:
        return 0.0


class CarelessStream(torch.Stream):
    def wait_event(self, event: torch.Event) -> None:
        """Waits for nothing."""

    def query(self) -> bool:
        return True


def new_parameters(original: Any, self: torch.nn.Module, *rest: Any, **keywords: Any) -> Any:
    """Every module gets parameter objects of its own on a move."""
    original(self, *rest, **keywords)
    for module in self.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(parameter.detach().clone())
    return self


def forgotten_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.get_device_module("emu"), "set_rng_state", lambda *a: None)


def host_sampling(original: Any, *rest: Any, device: Any = None, **keywords: Any) -> torch.Tensor:
    """Drawn on the host, whose generator the device's seed does not touch."""
    drawn: torch.Tensor = original(*rest, **keywords)
    return drawn.to(device)


def within(original: Any, x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    """The last element stands for all behind it."""
    return original(x, dim, index.clamp(max=x.shape[dim] - 1))


def careless(original: Any, x: torch.Tensor, dim: int, index: torch.Tensor, out: Any) -> Any:
    """The result is copied to wherever the output lies."""
    return out.copy_(original(x, dim, index))


def forgiven_types(original: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The second operand is taken for one of the first's type."""
    product: torch.Tensor = original(x, y.to(x.dtype))
    return product


def moved(original: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What was left on the host goes to the device without a word."""
    where = x.device if x.device.type != "cpu" else y.device
    product: torch.Tensor = original(x.to(where), y.to(where))
    return product


DIE_AT_EXIT = "import atexit, os\natexit.register(lambda: os.kill(os.getpid(), 11))"

SEEDS: dict[str, Seed] = {
    "gate1.copy.roundtrip": wrap("torch.Tensor.to", lose_last),
    "gate1.copy.pinned": replace("torch.Tensor.is_pinned", lambda self: False),
    "gate1.copy.non_blocking": replace("torch.Event", SleepyEvent),
    "gate1.copy.converts": on_device("torch.Tensor.to", through_bfloat16),
    "gate1.copy.lazy_views": on_device("torch.Tensor.conj", lambda original, self: self),
    "gate1.scalar.read": on_device("torch.Tensor.item", lambda original, self: original(self) + 1),
    "gate1.scalar.write": on_device("torch.Tensor.fill_", lambda o, x, value: o(x, min(value, 9))),
    "gate1.index.out_of_range": on_device("torch.Tensor.gather", within),
    "gate1.index.told_by_each_wait": replace("torch.Event", SleepyEvent),
    "gate1.index.told_for_each_stream": on_device("torch.Tensor.gather", within),
    "gate1.index.leaves_no_memory": in_child(
        "import torch\nkept = []\n"
        "take = torch.Tensor.__getitem__\n"
        "torch.Tensor.__getitem__ = lambda x, i: kept.append(take(x, i)) or kept[-1]"
    ),
    "gate1.operand.types": on_device("torch.mm", forgiven_types),
    "gate1.operand.devices": wrap("torch.mm", moved),
    "gate1.out.refused": on_device("torch.index_select", careless),
    "gate1.view.aliases": on_device(
        "torch.Tensor.unfold", lambda original, self, *a: original(self, *a).clone()
    ),
    "gate1.view.layout": on_device(
        "torch.Tensor.select", lambda original, self, dim, index: original(self, dim, 0)
    ),
    "gate1.view.version_guard": on_device("torch.Tensor.detach", lambda original, self: self.data),
    "gate1.storage.offset": on_device(
        "torch.Tensor.data_ptr", lambda original, self: self.untyped_storage().data_ptr()
    ),
    "gate1.strided.copies": on_device("torch.Tensor.copy_", only_contiguous),
    "gate1.strided.contiguous": on_device("torch.Tensor.contiguous", lambda o, self, **k: self),
    "gate1.strided.in_place": on_device("torch.Tensor.add_", only_contiguous),
    "gate1.strided.overlap_refused": on_device("torch.Tensor.add_", forgiving),
    "gate1.strided.zero_size": on_device(
        "torch.Tensor.clone", lambda original, self: original(self).reshape(-1)
    ),
    "gate1.factory.values": on_device("torch.zeros_like", lambda o, x, **k: torch.ones_like(x)),
    "gate1.factory.fresh": one_buffer,
    "gate1.memory.returns": leaking,
    "gate1.error.out_of_memory": wrap("torch.empty", bare_error),
    "gate1.device.index_refused": wrap("torch.ones", any_index),
    "gate1.serialization.roundtrip": wrap(
        "torch.load", lambda original, path, map_location=None, **k: original(path, **k)
    ),
    "gate1.serialization.plain_torch": wrap("torch.save", truncate),
    "gate1.serialization.missing_index": wrap("torch.load", first_index),
    "gate1.stream.order": replace("torch.Stream", CarelessStream),
    "gate1.stream.asynchronous": replace("torch.Stream", CarelessStream),
    "gate1.event.elapsed": replace("torch.Event", SleepyEvent),
    "gate1.stream.memory_reuse": replace("torch.Tensor.record_stream", lambda self, stream: None),
    "gate1.import.never_opens_device": in_child("import torch\ntorch.ones(1, device='emu')"),
    "gate1.exit.status": in_child(DIE_AT_EXIT),
    "gate1.exit.exception": in_child(DIE_AT_EXIT),
    "gate1.exit.device_stopped": in_child(
        "import atexit, time\natexit.register(lambda: time.sleep(60))"
    ),
    "gate1.fork.raises": in_child(
        "import os, torch\n"
        "os.register_at_fork(after_in_child=lambda: setattr(torch, 'ones', lambda *a, **k: None))"
    ),
    "gate1.fork.dataloader": in_child(
        "import os\nos.register_at_fork(after_in_child=lambda: os._exit(1))"
    ),
    "gate1.reset.old_tensors": in_child(
        "import emu_runtime\nemu_runtime.Device.reset = lambda self: None"
    ),
    "gate1.process.tensor_through_queue": in_child(
        "import numpy, pickle\nfrom multiprocessing.reduction import ForkingPickler\n"
        "ForkingPickler.dumps = lambda x: pickle.dumps(numpy.zeros(6))"
    ),
    "gate1.rng.state": forgotten_state,
    "gate1.rng.sampling": wrap("torch.randn", host_sampling),
    "gate1.module.tied_weights": wrap("torch.nn.Module.to", new_parameters),
    "gate1.module.optimizer_before_move": wrap("torch.nn.Module.to", new_parameters),
}
