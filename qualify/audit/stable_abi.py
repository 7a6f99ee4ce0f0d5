"""Symbols of CPython in an extension that is tagged for every version from one on (abi3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from abi3info import DATAS, FUNCTIONS
from abi3info.models import PyVersion, Symbol
from packaging.tags import Tag

from qualify.audit.elf import Undefined

PYTHON = re.compile(r"_?Py[A-Z_]")


def since(tags: Iterable[Tag]) -> PyVersion | None:
    """The oldest Python that the tags promise; None where not all are of the stable ABI."""
    found = [tag for tag in tags if tag.abi == "abi3" and re.fullmatch(r"cp3\d+", tag.interpreter)]
    if not found or len(found) != len(list(tags)):
        return None
    return min(PyVersion.parse_python_tag(tag.interpreter) for tag in found)


def wrong(undefined: Iterable[Undefined], oldest: PyVersion) -> Iterator[tuple[str, str]]:
    """The id of a finding and a symbol. One that is weak may be asked for before it is used."""
    for each in undefined:
        if each.weak or not PYTHON.match(each.name):
            continue
        symbol = Symbol(each.name)
        known = FUNCTIONS.get(symbol) or DATAS.get(symbol)
        if known is None:
            yield "abi3-symbol", each.name
        elif known.added > oldest:
            yield "abi3-too-new", f"{each.name} of {known.added}"
