"""exp, sin, erf and their like against mpmath, within the bounds that the specification states."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import mpmath
import numpy
import pytest
from gate0_health.lanes import BITS, LEAST, MANTISSA, Array, apply
from gate0_health.stated import BOUNDS

if TYPE_CHECKING:
    import emu_runtime

SEED = 31
EXACT: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(mpmath, name) for name in ("exp", "log", "tanh", "log1p", "expm1", "erf")},
    **{name: getattr(mpmath, name) for name in ("sin", "cos")},
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
# Where the result is neither zero nor infinite, f32 and f64.
RANGES = {
    "exp": ((-87, 88), (-708, 709)),
    "exp2": ((-126, 127), (-1022, 1023)),
    "expm1": ((-17, 88), (-37, 709)),
    "tanh": ((-9, 9), (-19, 19)),
    "erf": ((-4, 4), (-6, 6)),
    "sin": ((-100, 100), (-100, 100)),
    "cos": ((-100, 100), (-100, 100)),
    "log1p": ((-0.999, 10), (-0.999, 10)),
}
# The f64 that is nearest to a multiple of pi / 2, and the like of f32 (Muller and others, Handbook
# of Floating-Point Arithmetic, 2nd edition, 10.2.2): where a short pi has no right digit left.
HARD = {"f32": [16367173.0 * 2.0**72], "f64": [6381956970095103.0 * 2.0**797]}
POINTS = 300


@cache
def points(name: str, type_: str) -> Array:
    """Dense where the function varies, near zero and one, and at the hard points."""
    generator = numpy.random.default_rng(SEED)
    low, high = RANGES.get(name, ((1e-3, 10), (1e-3, 10)))[type_ == "f64"]
    near = generator.normal(0, 1, POINTS // 3) * 10.0 ** -generator.uniform(0, 8, POINTS // 3)
    parts: list[Array] = [numpy.linspace(low, high, POINTS), near, 1 + near]
    parts.append(generator.uniform(low, high, POINTS))
    if name in ("sin", "cos"):
        parts += [numpy.array(HARD[type_]), numpy.arange(1, 60) * (math.pi / 2)]
    elif name in ("log", "log2", "rsqrt"):
        parts.append(10.0 ** generator.uniform(-37, 37, POINTS))
    values: Array = numpy.concatenate(parts).astype(BITS[type_])
    if name in ("log", "log2", "rsqrt"):
        values = numpy.abs(values[values != 0])
    return values[values > -1] if name == "log1p" else values


@cache
def exact(name: str, type_: str) -> list[Any]:
    with mpmath.workprec(1200 if name in ("sin", "cos") else 160):
        return [EXACT[name](mpmath.mpf(value)) for value in points(name, type_).tolist()]


def units(got: float, wanted: Any, type_: str) -> float:
    """How far it is from the exact value, in units in the last place of that."""
    if wanted == 0 or not math.isfinite(got):
        return 0.0 if got == wanted else math.inf
    _, exponent = mpmath.frexp(wanted)
    unit = mpmath.mpf(2) ** max(exponent - 1 - MANTISSA[type_], LEAST[type_])
    return float(abs(mpmath.mpf(got) - wanted) / unit)


@pytest.mark.check(
    "gate0.instruction.transcendental", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_transcendental(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A function is further from the truth than the instruction set says."""
    worst: dict[str, dict[str, Any]] = {}
    too_far: list[str] = []
    for name, bounds in BOUNDS.items():
        for type_, bound in zip(("f32", "f64"), bounds, strict=True):
            values = points(name, type_)
            got = apply(runtime, f"{name}.{type_}", [(type_, values)], type_).tolist()
            off = [units(a, b, type_) for a, b in zip(got, exact(name, type_), strict=True)]
            at = max(range(len(off)), key=off.__getitem__)
            worst[f"{name}.{type_}"] = {
                **{"units": repr(round(off[at], 4)), "bound": bound, "points": len(off)},
                "at": repr(values[at].item()),
            }
            too_far += [f"{name}.{type_}"] * (off[at] > bound)
    count = sum(entry["points"] for entry in worst.values())
    detail(seed=SEED, points=count, worst=worst)
    print(f"{count:,} points of {len(worst)} functions")
    assert {name: worst[name] for name in too_far} == {}


SPECIAL = {
    "exp": (math.inf, 0.0),
    "exp2": (math.inf, 0.0),
    "expm1": (math.inf, -1.0),
    "tanh": (1.0, -1.0),
    "erf": (1.0, -1.0),
    "log": (math.inf, math.nan),
    "log2": (math.inf, math.nan),
    "log1p": (math.inf, math.nan),
    "rsqrt": (0.0, math.nan),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
}
AT_ZERO = {
    **{name: 1.0 for name in ("exp", "exp2", "cos")},
    **{name: 0.0 for name in ("expm1", "tanh", "erf", "log1p", "sin")},
    **{"log": -math.inf, "log2": -math.inf, "rsqrt": math.inf},
}
ODD = ("expm1", "tanh", "erf", "log1p", "sin", "rsqrt")


@pytest.mark.check(
    "gate0.instruction.special_values", obligations=["G0", "N2", "R1"], kind="focused test"
)
def test_special_values(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """An infinity, a NaN or a signed zero goes in, and something else comes out than has to."""
    wrong, count = {}, 0
    given = [math.inf, -math.inf, math.nan, 0.0, -0.0]
    for name in BOUNDS:
        minus = -AT_ZERO[name] if name in ODD else AT_ZERO[name]
        wanted = [*SPECIAL[name], math.nan, AT_ZERO[name], minus]
        for type_ in ("f32", "f64"):
            values = numpy.array(given, BITS[type_])
            got = apply(runtime, f"{name}.{type_}", [(type_, values)], type_).tolist()
            count += len(got)
            if list(map(repr, got)) != list(map(repr, wanted)):
                wrong[f"{name}.{type_}"] = {"got": list(map(repr, got)), "expected": repr(wanted)}
    detail(values=count, mismatching=wrong)
    print(f"{count} special values of {len(BOUNDS)} functions")
    assert not wrong
