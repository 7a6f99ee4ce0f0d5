"""Error bounds for comparisons with a reference in higher precision."""

from __future__ import annotations

from typing import Any

import numpy
import torch

UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}  # unit roundoff u


def gamma(k: int, dtype: torch.dtype = torch.float32) -> float:
    """gamma_k = ku / (1 - ku): relative error of k roundings, in any order (Higham, 3.1)."""
    ku = k * UNIT[dtype]
    return ku / (1 - ku)


def product_bound(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """|C - C^| <= gamma_k |A||B| elementwise, for inputs given in f64 and `dtype` arithmetic."""
    return gamma(a.shape[-1], dtype) * (a.abs() @ b.abs())


def worst_ulp(got: torch.Tensor, exact: numpy.ndarray[Any, Any]) -> float:
    """The largest distance of `got` from `exact`, in units of the last place of `got`'s type.

    `exact` is in extended precision. Infinities and NaNs must be the same ones; where they
    are not, the distance is infinite.
    """
    result = got.numpy()
    with numpy.errstate(over="ignore"):  # an infinity, as it should be
        rounded = exact.astype(result.dtype)
    finite = numpy.isfinite(result) & numpy.isfinite(rounded)
    same = (result == rounded) | (numpy.isnan(result) & numpy.isnan(rounded))
    if not bool((finite | same).all()):
        return float("inf")
    spacing = numpy.spacing(numpy.abs(rounded[finite])).astype(exact.dtype)
    distance = numpy.abs(result[finite].astype(exact.dtype) - exact[finite])
    return float((distance / spacing).max(initial=0))


WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def mismatches(got: torch.Tensor, expected: torch.Tensor, limit: int = 4) -> list[dict[str, Any]]:
    """The first elements whose bits differ, for a failure's record.

    So -0 is not 0; but every NaN equals every other, since payloads are nobody's promise.
    """
    if got.is_floating_point():
        word = WORD[got.itemsize]
        different = got.contiguous().view(word) != expected.contiguous().view(word)
        different &= ~(got.isnan() & expected.isnan())
    else:
        different = got != expected
    found = []
    for place in different.nonzero()[:limit].tolist():
        index = tuple(place)
        values = {"got": repr(got[index].item()), "expected": repr(expected[index].item())}
        found.append({"index": place, **values})
    return found
