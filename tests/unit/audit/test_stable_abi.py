"""An extension for every Python from one on asks only for what each of them has."""

from __future__ import annotations

import pytest
from packaging.tags import Tag, parse_tag

from qualify.audit.elf import Undefined
from qualify.audit.stable_abi import since, wrong


def tags(text: str) -> frozenset[Tag]:
    return parse_tag(text)


@pytest.mark.parametrize(
    ("text", "oldest"),
    [
        ("cp39-abi3-manylinux_2_17_x86_64", "3.9"),
        ("cp39.cp310-abi3-linux_x86_64", "3.9"),
        ("cp311-cp311-linux_x86_64", None),
        ("cp39-abi3.cp39-linux_x86_64", None),
        ("py3-none-any", None),
    ],
)
def test_the_oldest_that_is_promised(text: str, oldest: str | None) -> None:
    found = since(tags(text))
    assert (str(found) if found else None) == oldest


@pytest.mark.parametrize(
    ("symbol", "ids"),
    [
        ("PyObject_GetAttr", []),
        ("_Py_Dealloc", []),
        ("PyObject_GetBuffer", ["abi3-too-new"]),  # 3.11
        ("PyUnicode_GET_LENGTH", ["abi3-symbol"]),
        ("Pyre_Match", []),  # of another library
    ],
)
def test_symbols(symbol: str, ids: list[str]) -> None:
    oldest = since(tags("cp310-abi3-linux_x86_64"))
    assert oldest is not None
    assert [id for id, _ in wrong([Undefined(symbol, "", False, 1)], oldest)] == ids
    assert not list(wrong([Undefined(symbol, "", True, 1)], oldest))
