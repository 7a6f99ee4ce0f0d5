"""exp, log and tanh against mpmath, within the units in the last place that isa.toml promises."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from machine import Machine
from programs import DTYPES, FORMATS, OPS, Array, apply, bits, edges

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RANGES = {  # where the result is neither 0 nor infinite, and a little beyond
    ("exp", "f32"): (-110.0, 95.0),
    ("exp", "f64"): (-760.0, 720.0),
    ("tanh", "f32"): (-12.0, 12.0),
    ("tanh", "f64"): (-25.0, 25.0),
}


def inputs(op: str, type_: str) -> Array:
    """Dense where the function varies, all magnitudes, and beside the joints of the reductions."""
    dtype = DTYPES[type_]
    generator = np.random.default_rng(41)
    low, high = RANGES.get((op, type_), (0.0, 10.0))
    exponent, mantissa = FORMATS[type_]
    every = generator.integers(0, 1 << 63, 2500).astype(np.uint64) >> np.uint64(
        63 - exponent - mantissa
    )
    magnitudes = every.astype({4: np.uint32, 8: np.uint64}[dtype.itemsize]).view(dtype)
    joints = np.log(2) * (np.arange(-40, 40) + 0.5)
    near_one = 1 + generator.normal(0, 1e-3, 500)
    parts = [generator.uniform(low, high, 4000), generator.normal(0, 1, 1000), joints, near_one]
    out = np.concatenate([*(p.astype(dtype) for p in parts), magnitudes, -magnitudes, edges(type_)])
    return np.abs(out) if op == "log" else out


def units_off(got: Array, a: Array, op: str, type_: str) -> tuple[float, float]:
    """The largest error in units in the last place, and its input. Special values must be exact."""
    exponent, mantissa = FORMATS[type_]
    least = 2 - 2 ** (exponent - 1) - mantissa
    worst, where = 0.0, 0.0
    with mpmath.workprec(160):
        overflow = mpmath.mpf(2) ** (2 ** (exponent - 1))
        for x, y in zip(a.tolist(), got.tolist(), strict=True):
            if x != x:
                assert y != y
                continue
            exact = getattr(mpmath, op)(mpmath.mpf(x)) if abs(x) != np.inf else limit(op, x)
            if abs(exact) == mpmath.inf or exact == 0:
                assert y == exact, (x, y, exact)
                continue
            place = mpmath.mpf(2) ** max(
                int(mpmath.floor(mpmath.log(abs(exact), 2))) - mantissa, least
            )
            value = mpmath.sign(y) * overflow if abs(y) == np.inf else mpmath.mpf(y)
            error = float(abs(value - exact) / place)
            if error > worst and not (abs(y) == np.inf and abs(exact) > overflow):
                worst, where = error, x
    return worst, where


def limit(op: str, x: float) -> float:
    if op == "tanh":
        return float(np.sign(x))
    return float(np.inf) if x > 0 else 0.0


@pytest.mark.parametrize("type_", ["f32", "f64"])
@pytest.mark.parametrize("op", ["exp", "log", "tanh"])
def test_error_is_within_the_promise(machine: Machine, op: str, type_: str) -> None:
    a = inputs(op, type_)
    got = apply(machine, f"{op}.{type_}", [(type_, a)], type_)
    if op == "log":
        assert (got[a == 0] == -np.inf).all()
        a, got = a[a != 0], got[a != 0]
    worst, where = units_off(got, a, op, type_)
    assert worst <= OPS[op]["ulp"], f"{worst:.3f} units off at {where!r}"
    print(f"{op}.{type_}: {worst:.3f} units in the last place at {where!r}")


def test_log_of_negative_numbers_and_zeros(machine: Machine) -> None:
    a = np.array([-1, -np.inf, -1e-40, -0.0, 0.0], dtype=np.float32)
    got = apply(machine, "log.f32", [("f32", a)], "f32")
    assert (bits(got[:3]) == 0x7FC00000).all()
    assert (got[3:] == -np.inf).all()


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_tanh_keeps_the_sign_of_zero_and_tiny_values(machine: Machine, type_: str) -> None:
    tiny = np.finfo(DTYPES[type_]).smallest_subnormal
    a = np.array([0.0, -0.0, tiny, -tiny], dtype=DTYPES[type_])
    assert bits(apply(machine, f"tanh.{type_}", [(type_, a)], type_)).tobytes() == bits(a).tobytes()
