"""Conversions: every encoding of every narrow float, each way, under each rounding mode.

What an encoding stands for PyTorch says. What a value rounds to is looked up between the two of
the target's values that it lies between, which leaves no arithmetic to an oracle; to nearest even,
it is also what PyTorch itself rounds to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy
import pytest
import torch
from gate0_health.lanes import BITS, INTEGERS, NARROW, Array, apply, decode, different, encodings

if TYPE_CHECKING:
    import emu_runtime

MODES = ("even", "trunc", "even_sat", "trunc_sat")
TARGETS = (*NARROW, "f32", "f64", *INTEGERS)
OVERFLOW = {"f16": 0x7C00, "bf16": 0x7F80, "f8e4m3": 0x7F, "f8e5m2": 0x7C}
"""What comes after the largest: infinity, or the one NaN of f8e4m3."""
NAN = {"f16": 0x7E00, "bf16": 0x7FC0, "f8e4m3": 0x7F, "f8e5m2": 0x7E}
SIGN = {"f16": 0x8000, "bf16": 0x8000, "f8e4m3": 0x80, "f8e5m2": 0x80}


@cache
def ladder(to: str) -> Array:
    """The finite values that are not negative: each is where its bits say, as f64."""
    return decode(encodings(to)[: OVERFLOW[to]], to)


@cache
def points(source: str, to: str) -> Array:
    """All of a narrow type. Of a wide one, for a narrow target: its values, the middles between
    them, what lies beyond, and the neighbours of each."""
    if source in NARROW:
        return encodings(source)
    rungs = ladder(to)
    beyond = [2 * rungs[-1] - rungs[-2], numpy.inf]
    middles = numpy.append((rungs[1:] + rungs[:-1]) / 2, (rungs[-1] + beyond[0]) / 2)
    with numpy.errstate(over="ignore"):  # what lies beyond bf16 lies beyond f32
        exact = numpy.concatenate([rungs, middles, beyond]).astype(BITS[source])
    zero, infinite = exact.dtype.type(0), exact.dtype.type(numpy.inf)
    near = [exact, numpy.nextafter(exact, zero), numpy.nextafter(exact, infinite)]
    return numpy.concatenate([*near, *(-part for part in near), [numpy.nan]]).astype(BITS[source])


def narrowed(values: Array, to: str, mode: str) -> Array:
    """The encodings in `to`."""
    rungs, size = ladder(to), numpy.abs(values)
    size = numpy.where(numpy.isnan(size), 0, size)
    place = numpy.searchsorted(rungs, size, side="right") - 1
    step = numpy.append(numpy.diff(rungs), rungs[-1] - rungs[-2])[place]
    part = (numpy.where(numpy.isinf(size), rungs[-1], size) - rungs[place]) / step
    if mode.startswith("even"):
        place = place + ((part > 0.5) | ((part == 0.5) & (place % 2 == 1)))
    place = numpy.where(numpy.isinf(values), OVERFLOW[to], place)
    if mode.endswith("sat"):
        place = numpy.minimum(place, OVERFLOW[to] - 1)
    place = numpy.minimum(place, OVERFLOW[to])
    nan = numpy.isnan(values) | (place == NAN[to])  # f8e4m3 has that in place of infinity
    signed = place | numpy.where(numpy.signbit(values), SIGN[to], 0)
    return numpy.where(nan, NAN[to], signed).astype(BITS[to])


def integral(values: Array, to: str, mode: str) -> Array:
    whole = numpy.rint(values) if mode == "even_sat" else numpy.trunc(values)
    info = numpy.iinfo(BITS[to])
    above, below = whole >= float(info.max) + (to == "i64"), whole <= float(info.min)
    inside = numpy.where(above | below | numpy.isnan(whole), 0, whole).astype(numpy.int64)
    return numpy.where(above, info.max, numpy.where(below, info.min, inside)).astype(BITS[to])


@cache
def expected(source: str, to: str, mode: str) -> Array:
    values = decode(points(source, to), source)
    if to in NARROW:
        return narrowed(values, to, mode)
    if to in INTEGERS:
        return integral(values, to, mode)
    largest = float(numpy.finfo(BITS[to]).max)
    if mode.endswith("sat"):
        values = numpy.where(numpy.isinf(values), numpy.copysign(largest, values), values)
    exact: Array = values.astype(BITS[to])
    return exact


def wrong_of(runtime: emu_runtime.Device, source: str, to: str, mode: str) -> list[dict[str, Any]]:
    values = points(source, to)
    got = apply(runtime, f"cvt.{mode}.{to}.{source}", [(source, values)], to)
    return different(got, expected(source, to, mode), values)


@pytest.mark.check(
    "gate0.conversion.from_narrow", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_from_narrow(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """An encoding of f16, bf16 or f8 becomes another value than it is, in some type and mode."""
    wrong, count = {}, 0
    for source in NARROW:
        for to in TARGETS:
            for mode in MODES if to != source else ():
                count += points(source, to).size
                if found := wrong_of(runtime, source, to, mode):
                    wrong[f"cvt.{mode}.{to}.{source}"] = found
    each = {source: encodings(source).size for source in NARROW}
    detail(conversions=count, encodings=each, targets=TARGETS, modes=MODES, mismatching=wrong)
    print(f"{count:,} conversions: {each} encodings, 10 targets and {len(MODES)} modes each")
    assert not wrong


@pytest.mark.check(
    "gate0.conversion.to_narrow", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_to_narrow(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A value rounds to another f16, bf16 or f8 than the mode says: a tie, an edge, an overflow."""
    wrong, count = {}, 0
    for source in ("f32", "f64"):
        for to in NARROW:
            for mode in MODES:
                count += points(source, to).size
                if found := wrong_of(runtime, source, to, mode):
                    wrong[f"cvt.{mode}.{to}.{source}"] = found
    each = {to: points("f64", to).size for to in NARROW}
    detail(conversions=count, points=each, targets=list(NARROW), modes=MODES, mismatching=wrong)
    print(f"{count:,} conversions: {each} points, from 2 types and in {len(MODES)} modes each")
    assert not wrong


@pytest.mark.check(
    "gate0.conversion.as_pytorch", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_as_pytorch(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """f32 rounds to another narrow float than PyTorch's own kernels give, to nearest even."""
    wrong, count = {}, 0
    for to, dtype in NARROW.items():
        values = points("f32", to)
        mode = "even_sat" if to == "f8e4m3" else "even"  # PyTorch saturates that one
        word = {1: torch.uint8, 2: torch.int16}[numpy.dtype(BITS[to]).itemsize]
        theirs = torch.from_numpy(values).to(dtype).view(word).numpy().view(BITS[to])
        ours = apply(runtime, f"cvt.{mode}.{to}.f32", [("f32", values)], to)
        number = ~numpy.isnan(values)
        count += int(number.sum())
        if found := different(ours[number], theirs[number], values[number]):
            wrong[to] = found
    detail(conversions=count, torch=torch.__version__, mismatching=wrong)
    print(f"{count:,} conversions as PyTorch {torch.__version__} has them")
    assert not wrong
