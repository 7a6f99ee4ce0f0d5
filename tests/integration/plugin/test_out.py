"""Every native out= and in-place overload against the CPU's, on outputs that are awkward.

The dispatcher says which overloads are native, so that one without a case here is a failure. The
outcome of a call is its values, layout and warnings, or its error: each has to be the CPU's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from overloads import OVERLOADS, UNSOUND_ON_CPU, Overload

Outcome = dict[str, Any]


def _told(text: object) -> str:
    return str(text).replace("emu:0", "cpu").splitlines()[0]


def outcome(overload: Overload, arguments: list[Any], written: list[torch.Tensor]) -> Outcome:
    """What a call does to `written` or else gives back, or how it refuses; without device names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            given = overload.call(arguments, written)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            # The message of a type that is not there names the kernel, which is each device's own.
            told = "" if isinstance(error, NotImplementedError) else _told(error)
            return {"error": (type(error).__name__, told)}
    return {
        "values": [tensor.cpu() for tensor in written or given],
        "strides": [tensor.stride() for tensor in written or given],
        "warnings": [_told(warning.message) for warning in caught],
    }


def assert_same(got: Outcome, expected: Outcome, precision: float) -> None:
    values, wanted = got.pop("values", []), expected.pop("values", [])
    assert got == expected
    for value, want in zip(values, wanted, strict=True):
        floating = want.is_floating_point()
        bound = 16 * max(torch.finfo(want.dtype).eps, precision) if floating else 0
        torch.testing.assert_close(value, want, rtol=bound, atol=bound, equal_nan=True)


Case = Callable[[Overload, str], "tuple[list[Any], list[torch.Tensor]] | None"]


def _fresh(overload: Overload, device: str, rows: int = 4) -> tuple[list[Any], list[torch.Tensor]]:
    """Arguments, and outputs of the right shape and dtype."""
    arguments = overload.arguments(device, rows)
    if overload.in_place:
        return arguments, [arguments[0]]
    host = overload.arguments("cpu", rows)
    return arguments, [torch.full_like(one, 3, device=device) for one in overload.results(host)]


def right(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]]:
    return _fresh(overload, device)


def no_rows(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]]:
    return _fresh(overload, device, rows=0)


def resized(
    shape: tuple[int, ...],
) -> Callable[[Overload, str], tuple[list[Any], list[torch.Tensor]] | None]:
    def case(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
        arguments, written = _fresh(overload, device)
        if overload.in_place:
            return None
        return arguments, [one.new_empty(shape) for one in written]

    return case


def transposed(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
    if overload.name.removeprefix("aten::").startswith(UNSOUND_ON_CPU):
        return None
    arguments, written = _fresh(overload, device)
    written = [
        one.transpose(0, -1).contiguous().transpose(0, -1) if one.dim() else one for one in written
    ]
    if overload.in_place:
        arguments[0] = written[0]
    return arguments, written


def overlaps_itself(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
    if overload.name.removeprefix("aten::").startswith(UNSOUND_ON_CPU):
        return None
    arguments, written = _fresh(overload, device)
    written = [one.new_ones((1,) * one.dim()).expand(one.shape) for one in written]
    if overload.in_place:
        arguments[0] = written[0]
    return arguments, written


def is_an_input(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
    """The output is an input of its shape and dtype, all of it."""
    arguments, written = _fresh(overload, device)
    for place, one in enumerate(arguments):
        if (
            isinstance(one, torch.Tensor)
            and one is not written[0]
            and (one.shape, one.dtype) == (written[0].shape, written[0].dtype)
        ):
            if overload.in_place:
                arguments[place] = written[0]
            return arguments, [arguments[place], *written[1:]]
    return None


def overlaps_an_input(place: int) -> Case:
    """The output begins one element into the input at `place`."""

    def case(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
        arguments, written = _fresh(overload, device)
        tensors = overload.tensors(arguments)
        if len(tensors) <= place or (overload.in_place and place == 0):
            return None
        one, out = tensors[place], written[0]
        if one.dtype != out.dtype or out.numel() < 2 or one.numel() < 2:
            return None
        store = torch.ones(1 + out.numel() + one.numel(), dtype=out.dtype, device=device)
        inside = store[1 : 1 + one.numel()].view(one.shape).copy_(one)
        over = store[: out.numel()].view(out.shape)
        if overload.in_place:
            arguments[0] = over
        overload.exchange(arguments, one, inside)
        return arguments, [over, *written[1:]]

    return case


def of_dtype(dtype: torch.dtype) -> Case:
    def case(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
        arguments, written = _fresh(overload, device)
        written = [one.to(dtype) for one in written]
        if overload.in_place:
            arguments[0] = written[0]
        return arguments, written

    return case


def all_double(overload: Overload, device: str) -> tuple[list[Any], list[torch.Tensor]] | None:
    """Every float is an f64, the outputs too."""
    arguments, written = _fresh(overload, device)
    outputs = [one.double() if one.is_floating_point() else one for one in written]
    for one in overload.tensors(arguments):
        if one.is_floating_point():
            overload.exchange(arguments, one, one.double())
    if overload.in_place:
        outputs = [arguments[0]]
    if torch.float32 in arguments:  # the type of a softmax's input
        arguments[arguments.index(torch.float32)] = torch.float64
    return arguments, outputs


CASES: dict[str, Case] = {
    "right": right,
    "no_rows": no_rows,
    "empty": resized((0,)),
    "wrong_shape": resized((2, 5)),
    "transposed": transposed,
    "overlaps_itself": overlaps_itself,
    "is_an_input": is_an_input,
    "overlaps_first_input": overlaps_an_input(0),
    "overlaps_second_input": overlaps_an_input(1),
    "integer": of_dtype(torch.int32),
    "boolean": of_dtype(torch.bool),
    "double": of_dtype(torch.float64),
    "half": of_dtype(torch.float16),
    "all_double": all_double,
}


# Where the CPU does not refuse these it may compute with what it has overwritten.
OVERLAPPING = {"overlaps_itself", "is_an_input", "overlaps_first_input", "overlaps_second_input"}

# The device's exponential and logarithm are not precise enough for a power in f64.
WITHOUT_PROGRAM = {
    ("aten::pow_.Tensor", "double"),
    ("aten::pow_.Tensor", "all_double"),
    ("aten::pow.Tensor_Tensor_out", "all_double"),
}


def is_sound(overload: Overload, expected: Outcome) -> bool:
    """Whether the CPU's values are those that it has without the overlap."""
    usual = outcome(overload, *right(overload, "cpu"))
    pairs = zip(expected["values"], usual["values"], strict=True)
    return all(torch.equal(value, without) for value, without in pairs)


@pytest.mark.parametrize("name", OVERLOADS)
def test_as_the_cpu(name: str) -> None:
    overload = OVERLOADS[name]
    wrong = {}
    for case, make in CASES.items():
        on_host = make(overload, "cpu")
        if on_host is None:
            continue
        on_device = make(overload, "emu")
        assert on_device is not None
        if (name, case) in WITHOUT_PROGRAM:
            continue
        expected, got = outcome(overload, *on_host), outcome(overload, *on_device)
        if case in OVERLAPPING and "error" not in expected and not is_sound(overload, expected):
            continue
        try:
            assert_same(got, expected, overload.precision(on_host[0]))
        except AssertionError as error:
            wrong[case] = str(error)
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())
