"""Writes that PyTorch refuses: a bad index, an output that overlaps, a number that does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from child import run_python

Act = Callable[[torch.Tensor, torch.Tensor], object]

# On a tensor of shape (4, 6), with index tensors of one bad element; and the size it is out of.
INDEXED: dict[str, tuple[Act, int]] = {
    "gather": (lambda x, bad: x.gather(1, bad.view(1, 2)), 6),
    "scatter_": (lambda x, bad: x.scatter_(1, bad.view(1, 2), 7.0), 6),
    "index_select": (lambda x, bad: x.index_select(0, bad), 4),
    "index": (lambda x, bad: x[bad], 4),
    "index_put_": (lambda x, bad: x.index_put_((bad,), x.new_tensor(7.0)), 4),
    "embedding": (lambda x, bad: torch.nn.functional.embedding(bad, x), 4),
}


@pytest.mark.check("gate1.index.out_of_range", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", INDEXED)
def test_index(device: str, name: str) -> None:
    """A bad index reads or writes beside the tensor, ends the context, or names nothing."""
    act, size = INDEXED[name]
    start = torch.arange(24.0).reshape(4, 6)
    wide = start.repeat(3, 1).to(device)
    x = wide[4:8]
    with pytest.raises((IndexError, RuntimeError)) as raised:
        act(x, torch.tensor([0, 9], device=device))
        torch.accelerator.synchronize()
    text = str(raised.value)
    if device != "cpu":
        assert isinstance(raised.value, IndexError)
        # An embedding is looked up by `index_select`.
        assert {"embedding": "index_select"}.get(name, name.rstrip("_")) in text
        assert "index 9 " in text and f"size {size}" in text, text
    assert torch.equal(wide.cpu()[:4], start) and torch.equal(wide.cpu()[8:], start)
    x.copy_(start.to(device))
    assert torch.equal((x + 1).cpu(), start + 1)


def _by_event(x: torch.Tensor) -> None:
    event = torch.Event(device=x.device)
    event.record()
    event.synchronize()


def _by_polling(x: torch.Tensor) -> None:
    event = torch.Event(device=x.device)
    event.record()
    while not event.query():
        pass


def _by_polling_the_stream(x: torch.Tensor) -> None:
    while not torch.accelerator.current_stream().query():
        pass


def _by_pinned_copy(x: torch.Tensor) -> None:
    torch.empty(x.shape, pin_memory=True).copy_(x, non_blocking=True)
    _by_event(x)


# Ways of a host to know that work is done.
WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "copy": lambda x: x.cpu(),
    "device": lambda x: torch.accelerator.synchronize(),
    "event": _by_event,
    "item": lambda x: x[0, 0].item(),
    "pageable": lambda x: torch.empty(x.shape).copy_(x, non_blocking=True),
    "pinned": _by_pinned_copy,
    "query": _by_polling,
    "query_stream": _by_polling_the_stream,
    "stream": lambda x: torch.accelerator.current_stream().synchronize(),
}


@pytest.mark.check("gate1.index.told_by_each_wait", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", WAITS)
def test_index_is_told(accelerator: str, name: str) -> None:
    """After a wait of one kind the host reads what a bad index left, and nothing was raised."""
    x = torch.arange(24.0, device=accelerator).reshape(4, 6)
    bad = torch.tensor([0, 9], device=accelerator)
    torch.accelerator.synchronize()
    with torch.Stream(device=accelerator):
        y = x[bad]
        with pytest.raises(IndexError, match=r"index 9 .* size 4"):
            WAITS[name](y)
        WAITS[name](y)  # once


@pytest.mark.check("gate1.index.told_for_each_stream", obligations=["G1"], kind="focused test")
def test_index_of_each_stream(accelerator: str) -> None:
    """Of two streams with a bad index each one is told, or what it tells is of both mixed."""
    x = torch.arange(24.0, device=accelerator).reshape(4, 6)
    many = torch.zeros(1 << 16, dtype=torch.int64, device=accelerator)
    for round in range(10):
        low, high = many.clone(), many.clone()
        low[: 1 << 15].fill_(-100 - round)
        high[1 << 15 :].fill_(100 + round)
        streams = [torch.Stream(device=accelerator) for _ in range(2)]
        torch.accelerator.synchronize()
        with streams[0]:
            x[low, high]  # blocks of one program find different indices of different dimensions
        with streams[1]:
            x.gather(1, many.fill_(50 + round).view(4, -1))
        told = []
        for stream in streams:
            with pytest.raises(IndexError) as raised:
                stream.synchronize()
            told.append(re.search(r"::([\w.]+): index (\S+) .* size (\d+)", str(raised.value)))
        found = {match.groups() for match in told if match}
        name = "index.Tensor"
        of_index = {(name, f"{-100 - round}", "4"), (name, f"{100 + round}", "6")}
        assert found - of_index == {("gather", f"{50 + round}", "6")}
        assert len(found & of_index) == 1
        torch.accelerator.synchronize()
        many.zero_()


FIRST_INDEXING = """
import sys, torch
x = torch.arange(24.0, device=sys.argv[1])
index = torch.tensor([3, 1], device=x.device)
module = torch.get_device_module(x.device)
before = module.memory_allocated()
x[index].cpu()
print(module.memory_allocated() - before)
"""


@pytest.mark.check("gate1.index.leaves_no_memory", obligations=["G1"], kind="focused test")
def test_index_memory(accelerator: str) -> None:
    """The first indexing of a process keeps memory of its own on the user's books."""
    done = run_python(FIRST_INDEXING, accelerator)
    assert done.stdout == "0\n", done.told


Call = Callable[[torch.Tensor, torch.Tensor], object]

# On an input of shape (4, 6) and an output of the result's shape.
WRITING: dict[str, tuple[Call, tuple[int, ...]]] = {
    "add": (lambda x, out: torch.add(x, 1, out=out), (4, 6)),
    "cat": (lambda x, out: torch.cat([x, x], out=out), (8, 6)),
    "index_select": (lambda x, out: torch.index_select(x, 0, _ids(x), out=out), (3, 6)),
    "gather": (lambda x, out: torch.gather(x, 0, _ids(x).view(3, 1), out=out), (3, 1)),
    "max": (lambda x, out: torch.max(x, 1, out=(out, _ids(x).new_empty(4))), (4,)),
    "index": (lambda x, out: torch.ops.aten.index.Tensor_out(x, [_ids(x)], out=out), (3, 6)),
    "sum": (lambda x, out: torch.sum(x, 1, out=out), (4,)),
}


def _ids(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([3, 0, 1], device=x.device)


def _outcome(call: Call, x: torch.Tensor, out: torch.Tensor) -> str:
    try:
        call(x, out)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__
    return "done"


@pytest.mark.check("gate1.out.refused", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", WRITING)
def test_out(device: str, name: str) -> None:
    """An output that overlaps, or has no room for the type, is written: silently wrong values."""
    call, shape = WRITING[name]
    size = torch.Size(shape).numel()
    outcomes = {}
    for where in ("cpu", device):
        store = torch.arange(24.0 + size).to(where)
        x = store[:24].view(4, 6)
        outcomes[where] = [
            _outcome(call, x, store[1 : 1 + size].view(shape)),
            _outcome(call, x, x.new_empty(1).expand(shape)),
            _outcome(call, x, torch.empty(shape, dtype=torch.int32, device=where)),
            _outcome(call, x, torch.empty(shape, dtype=torch.float64, device=where)),
        ]
        if outcomes[where][0] != "done":
            assert torch.equal(store.cpu(), torch.arange(24.0 + size))
    assert outcomes[device] == outcomes["cpu"]


@pytest.mark.check("gate1.scalar.write", obligations=["G1"], kind="focused test")
def test_scalar(device: str) -> None:
    """A number is cut to the type's bits: True becomes 2, and 300 in a byte 44 without a word."""
    flags = torch.zeros(3, dtype=torch.bool, device=device)
    assert flags.fill_(2).view(torch.uint8).tolist() == [1, 1, 1]
    byte = torch.tensor([1, 200], dtype=torch.uint8, device=device)
    assert byte.clone().fill_(-1).tolist() == [255, 255]
    assert (byte + 300).tolist() == [45, 244]
    acts: list[Callable[[], object]] = [
        lambda: byte.fill_(300),
        lambda: byte.clamp(0, 300),
        lambda: byte.masked_fill(byte > 1, 300),
        lambda: torch.full((2,), 128, dtype=torch.int8, device=device),
        lambda: torch.full((2,), 1e6, dtype=torch.float16, device=device),
    ]
    for act in acts:
        with pytest.raises(RuntimeError, match="without overflow"):
            act()
    assert byte.tolist() == [1, 200]
