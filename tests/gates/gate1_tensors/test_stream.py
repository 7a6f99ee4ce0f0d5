"""Streams keep their own order, events order one after another, and errors say what failed."""

from __future__ import annotations

import pytest
import torch


def occupy(stream: torch.Stream, device: str, rounds: int = 30) -> torch.Tensor:
    """Some milliseconds of work on `stream`; the result is all ones."""
    weight = torch.full((256, 256), 1 / 256, device=device)
    busy = torch.ones(256, 256, device=device)
    torch.accelerator.synchronize()
    with stream:
        for _ in range(rounds):
            busy = busy @ weight
    return busy


@pytest.mark.check("gate1.stream.order", obligations=["G1"], kind="focused test")
def test_order(accelerator: str) -> None:
    """Work on one stream starts before the event that it was told to wait for."""
    first, second = torch.Stream(device=accelerator), torch.Stream(device=accelerator)
    assert first != second
    for number in range(10):
        box = torch.full((4096,), -1.0, device=accelerator)
        occupy(first, accelerator)
        with first:
            box.fill_(number)
            event = first.record_event()
        second.wait_event(event)
        with second:
            seen = box.clone()
        second.synchronize()
        assert bool((seen == number).all().item()), f"round {number}"


@pytest.mark.check("gate1.stream.asynchronous", obligations=["G1"], kind="focused test")
def test_query(accelerator: str) -> None:
    """`query()` says done while work is queued, or `synchronize()` returns before it is done."""
    stream = torch.Stream(device=accelerator)
    occupy(stream, accelerator, rounds=200)
    event = stream.record_event()
    assert not stream.query(), "submission waited for the work, or query does not look"
    assert not event.query()
    stream.synchronize()
    assert stream.query()
    assert event.query()


@pytest.mark.check("gate1.event.elapsed", obligations=["G1"], kind="focused test")
def test_elapsed(accelerator: str) -> None:
    """`elapsed_time` is zero, negative, or does not grow with the work between the events."""
    stream = torch.Stream(device=accelerator)
    times: list[float] = []
    for rounds in (20, 80):
        torch.accelerator.synchronize()
        start = torch.Event(device=accelerator, enable_timing=True)
        end = torch.Event(device=accelerator, enable_timing=True)
        with stream:
            weight = torch.full((256, 256), 1 / 256, device=accelerator)
            start.record()
            for _ in range(rounds):
                weight = weight @ weight
            end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    assert times[0] > 0
    assert 2 < times[1] / times[0] < 8, times  # four times the work, in device time


@pytest.mark.check("gate1.stream.memory_reuse", obligations=["G1", "R2"], kind="focused test")
def test_reuse_across_streams(accelerator: str) -> None:
    """A freed block is handed to another stream while the first one still works on it."""
    side = torch.Stream(device=accelerator)
    for number in range(20):
        block = torch.full((1 << 16,), float(number), device=accelerator)
        torch.accelerator.current_stream().synchronize()
        result = torch.empty(1 << 16, device=accelerator)
        torch.accelerator.synchronize()
        occupy(side, accelerator, rounds=10)
        with side:
            result.copy_(block)
        block.record_stream(side)
        del block
        for _ in range(4):
            torch.full((1 << 16,), -5.0, device=accelerator)  # takes freed memory, if there is any
        side.synchronize()
        assert bool((result == number).all().item()), f"round {number}"
