"""Reads `tolerances.toml`: every number that a comparison allows, with its reason and source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("tolerances.toml")


class Tolerance(NamedTuple):
    """`value` is counted in `unit`; a record carries all four."""

    value: float
    unit: str
    reason: str
    source: str


def tolerance(name: str) -> Tolerance:
    """The entry `name`; an entry without one of the four fields is not usable."""
    entries: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    if name not in entries:
        raise KeyError(f"{FILE.name} has no entry {name}: expected one of {', '.join(entries)}")
    entry = entries[name]
    missing = [field for field in Tolerance._fields if not entry.get(field)]
    if missing:
        raise KeyError(f"{FILE.name}, {name}: expected {', '.join(missing)}, got nothing")
    return Tolerance(**{field: entry[field] for field in Tolerance._fields})
