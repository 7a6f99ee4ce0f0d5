"""A finding, and what each kind of finding means to a user: kinds.toml, which is read here."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Literal

import msgspec

Level = Literal["error", "warning", "note"]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`got` is what was found there. `offset` is in the member's bytes; see `in_wheel`."""

    id: str
    wheel: str
    member: str = ""
    offset: int | None = None
    line: int | None = None
    got: str

    @property
    def where(self) -> str:
        """Member and place; "the wheel" for one that is about all of it."""
        return " ".join(filter(None, (self.member, self.place))) or "the wheel"

    @property
    def in_wheel(self) -> bool:
        """Whether `offset` is in the wheel's bytes: there is no member, or its frame is wrong."""
        return not self.member or self.id.startswith("zip-")

    @property
    def place(self) -> str:
        if self.line is not None:
            return f"line {self.line}"
        if self.offset is None:
            return ""
        return f"byte {self.offset}" + " of the wheel" * self.in_wheel


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`error`: an install or a use breaks, or two tools disagree on what the wheel is; `warning`:
    it breaks for some; `note`: it works, and says or carries more than it should."""

    level: Level
    wrong: Text
    seen: Text
    mend: Text


def some(names: list[str]) -> str:
    """The first of several, and how many more there are."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


@functools.cache
def kinds() -> dict[str, Kind]:
    text = Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Kind])
