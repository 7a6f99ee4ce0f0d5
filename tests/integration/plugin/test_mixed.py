"""Every native overload of several tensors with one of them of another type, or left on the host.

Of another type the outcome is the CPU's: its values, or that it is refused. Left on the host it is
refused, as PyTorch's own devices do. Neither costs the device its context.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from overloads import ALL, Overload
from test_out import assert_same, outcome

DTYPES = (torch.float16, torch.float64, torch.int64, torch.bool)

# They are of this device alone, or the CPU has no kernel under that name.
ONLY_HERE = ("aten::_copy_from", "aten::_thnn_fused_")
# They go from device to device.
COPIES = ("aten::_copy_from", "aten::_copy_from_and_resize", "aten::fill_.Tensor")
# PyTorch itself takes these indices from the host.
HOST_INDICES = ("aten::index.", "aten::_index_put_impl_")
OWN_WORDS = ("aten::baddbmm_", "aten::native_layer_norm", "aten::nll_loss_backward")
REFUSAL = "dtype|scalar type|expected weight and bias"
SEVERAL = {name: one for name, one in ALL.items() if len(one.tensors(one.arguments("cpu", 4))) > 1}


def changed(
    overload: Overload, device: str, place: int, to: torch.dtype | torch.device
) -> list[Any]:
    """Arguments whose tensor at `place` is of another dtype, or on another device."""
    arguments = overload.arguments(device, 4)
    old = overload.tensors(arguments)[place]
    overload.exchange(arguments, old, old.to(to))
    return arguments


def written(overload: Overload, device: str, arguments: list[Any]) -> list[torch.Tensor]:
    if overload.in_place:
        return [arguments[0]]
    if not overload.outputs:
        return []
    results = overload.results(overload.arguments("cpu", 4))
    return [torch.full_like(one, 3, device=device) for one in results]


def places(overload: Overload) -> range:
    return range(len(overload.tensors(overload.arguments("cpu", 4))))


@pytest.mark.parametrize("name", [one for one in SEVERAL if not one.startswith(ONLY_HERE)])
def test_types(name: str) -> None:
    overload = SEVERAL[name]
    wrong = {}
    for place in places(overload):
        for dtype in DTYPES:
            outcomes = []
            for device in ("cpu", "emu"):
                arguments = changed(overload, device, place, dtype)
                outcomes.append(outcome(overload, arguments, written(overload, device, arguments)))
            expected, got = outcomes
            if without_program(name, dtype, got) or refused_by_both(name, expected, got):
                continue
            try:
                assert_same(got, expected, overload.precision(arguments))
            except AssertionError as error:
                wrong[f"{place}, {dtype}"] = str(error)
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())
    assert torch.ones(3, device="emu").add(1).tolist() == [2.0, 2.0, 2.0]


def without_program(name: str, dtype: torch.dtype, got: dict[str, Any]) -> bool:
    """A power in f64 goes to the host, which is an error here."""
    power = name.startswith("aten::pow") and dtype is torch.float64
    return power and got["error"][0] == "NotImplementedError"


def refused_by_both(name: str, expected: dict[str, Any], got: dict[str, Any]) -> bool:
    """Both refuse, and may say it differently: a missing kernel is each device's own."""
    kinds = {one.get("error", ("",))[0] for one in (expected, got)}
    kind, text = got.get("error", ("", ""))
    if kind == "RuntimeError" and not re.search(REFUSAL, text):
        return False  # what went wrong later is no refusal
    own = name.startswith(OWN_WORDS) or "NotImplementedError" in kinds
    return own and kinds <= {"NotImplementedError", "RuntimeError"}


@pytest.mark.parametrize("name", [one for one in SEVERAL if one not in COPIES])
def test_host(name: str) -> None:
    overload = SEVERAL[name]
    wrong = {}
    for place in places(overload):
        arguments = changed(overload, "emu", place, torch.device("cpu"))
        one = overload.tensors(arguments)[place]
        if one.dim() == 0 or (name.startswith(HOST_INDICES) and one.dtype is torch.int64):
            continue
        got = outcome(overload, arguments, written(overload, "emu", arguments))
        kind, text = got.get("error", ("nothing", ""))
        if kind != "RuntimeError" or not re.search("same device|to have device", text):
            wrong[place] = (kind, text)
    assert not wrong
    assert torch.ones(3, device="emu").add(1).tolist() == [2.0, 2.0, 2.0]
