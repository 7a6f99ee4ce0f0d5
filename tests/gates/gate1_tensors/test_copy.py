"""Bytes that go to the device and come back are the bytes that went."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

BYTE_DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]
# Nothing, one element, an odd count, and more than two 4 MiB staging buffers.
COUNTS = [0, 1, 1021, (9 << 20) + 3]


def random_bits(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Every bit pattern, NaNs with payloads too; for bool only its two."""
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,)).bool()
    return torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8).view(dtype)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.check("gate1.copy.roundtrip", obligations=["B3", "G1"], kind="focused test")
@pytest.mark.parametrize("dtype", BYTE_DTYPES, ids=lambda d: str(d).removeprefix("torch."))
def test_roundtrip(device: str, dtype: torch.dtype, detail: Callable[..., None]) -> None:
    """Values change, or a tensor keeps old contents, on the way to the device and back."""
    for count in COUNTS:
        source = random_bits(dtype, count)
        there = source.to(device, copy=True)
        assert there.device.type == device
        kept = source.clone()
        source.zero_()  # the device must hold its own copy
        back = there.to("cpu")
        assert same_bits(back, kept), f"{count} elements of {dtype}"
        into = torch.empty_like(kept)
        into.copy_(there)
        assert same_bits(into, kept), f"copy_ of {count} elements of {dtype}"
    detail(path="native", counts=COUNTS)


@pytest.mark.check("gate1.copy.pinned", obligations=["B3", "G1"], kind="focused test")
@pytest.mark.parametrize("dtype", BYTE_DTYPES, ids=lambda d: str(d).removeprefix("torch."))
def test_pinned(accelerator: str, dtype: torch.dtype) -> None:
    """A copy from pinned memory is wrong, or memory that was pinned is not known as pinned."""
    module = torch.get_device_module(accelerator)
    for count in COUNTS[1:]:
        source = random_bits(dtype, count).pin_memory()
        assert source.is_pinned()
        there = source.to(accelerator, non_blocking=True)
        back = torch.empty(count, dtype=dtype, pin_memory=True)
        back.copy_(there, non_blocking=True)
        module.synchronize()
        assert same_bits(back, source), f"{count} elements of {dtype}"


@pytest.mark.check("gate1.copy.non_blocking", obligations=["G1"], kind="focused test")
def test_non_blocking_is_ordered(accelerator: str, detail: Callable[..., None]) -> None:
    """A non-blocking copy overtakes the work before it, or reads its source after its event."""
    rounds, size = 20, 1 << 16
    weight = torch.full((256, 256), 1 / 256, device=accelerator)
    pinned = torch.empty(size, pin_memory=True)
    out = torch.empty(size, pin_memory=True)
    for number in range(rounds):
        pinned.fill_(number)
        target = torch.full((size,), -1.0, device=accelerator)
        busy = weight
        for _ in range(8):
            busy = busy @ weight  # keeps the stream occupied while the copy waits its turn
        target.mul_(2)
        target.copy_(pinned, non_blocking=True)
        event = torch.Event(device=accelerator)
        event.record()
        result = target + busy[0, 0] * 0
        event.synchronize()
        pinned.fill_(-7)  # allowed from here on, and only from here on
        out.copy_(result, non_blocking=True)
        after = torch.Event(device=accelerator)
        after.record()
        after.synchronize()
        assert bool((out == number).all()), f"round {number}: got {out.unique()[:4].tolist()}"
    detail(rounds=rounds)


@pytest.mark.check("gate1.copy.converts", obligations=["G1", "N2"], kind="focused test")
def test_conversion(device: str) -> None:
    """`.to(dtype)` on the device rounds, wraps or truncates in another way than on the CPU."""
    floats = torch.cat([torch.randn(4096) * 100, torch.tensor([0.0, -0.0, 1e-8, 65504.0, 70000.0])])
    whole = torch.randint(-120, 120, (4096,))
    for target in (torch.float16, torch.bfloat16, torch.float64):
        assert torch.equal(floats.to(device).to(target).cpu(), floats.to(target)), target
    for target in (torch.int8, torch.int32, torch.int64, torch.float32, torch.bool, torch.bfloat16):
        assert torch.equal(whole.to(device).to(target).cpu(), whole.to(target)), target
    small = floats.clamp(-100, 100)
    for target in (torch.int8, torch.int16, torch.int32, torch.int64):
        assert torch.equal(small.to(device).to(target).cpu(), small.to(target)), target


LAZY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conj": lambda x: x.conj(),
    "negative": lambda x: x._neg_view(),
    "both": lambda x: x.conj()._neg_view(),
    "conj_imag": lambda x: x.conj().imag,
    "real_negative": lambda x: x.real._neg_view(),
    "strided": lambda x: x.conj().t()[:, 1:],
}


@pytest.mark.check("gate1.copy.lazy_views", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("name", LAZY)
def test_lazy_views(device: str, name: str) -> None:
    """A conjugate or negative view is copied without its sign, or copying one ends the process."""
    view = LAZY[name]
    host = torch.complex(torch.arange(12.0), torch.arange(1.0, 13.0)).reshape(3, 4)
    there = host.to(device, copy=True)
    told = view(host).clone().resolve_conj().resolve_neg()
    assert torch.equal(view(there).cpu(), told)
    assert torch.equal(view(there).clone().cpu(), told)
    assert torch.equal(view(host).to(device).cpu(), told)
    assert torch.equal(torch.empty_like(told).copy_(view(there)), told)
    for source in (told, view(host)):
        for given in (source, source.to(device)):
            written, reference = torch.zeros_like(there), torch.zeros_like(host)
            view(reference).copy_(source)
            view(written).copy_(given)
            assert torch.equal(written.cpu(), reference)


@pytest.mark.check("gate1.scalar.read", obligations=["G1"], kind="focused test")
def test_scalars(device: str) -> None:
    """`item()`, `bool()`, `tolist()` or printing a device tensor gives another value or fails."""
    tensor = torch.tensor([[1.5, -2.0], [3.25, 4.0]], device=device)
    assert tensor[1, 0].item() == 3.25
    assert int(torch.tensor(7, device=device)) == 7
    assert bool(torch.tensor(True, device=device)) is True
    assert tensor.tolist() == [[1.5, -2.0], [3.25, 4.0]]
    text = repr(tensor)
    assert "3.2500" in text
    assert device == "cpu" or f"device='{device}:0'" in text
