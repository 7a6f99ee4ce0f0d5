"""Each kind says what is wrong, what a user sees and what to do, in words of its own."""

from __future__ import annotations

import re

import msgspec
import pytest

from qualify.audit.finding import Finding, Kind, kinds


def test_ids_are_stable_words() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id) for id in kinds())


def test_no_two_kinds_say_the_same_is_wrong() -> None:
    texts = [kind.wrong for kind in kinds().values()]
    assert len(set(texts)) == len(texts)
    assert not any(text.endswith(".") for text in texts)  # what was found follows it


def test_a_level_that_is_none_is_refused() -> None:
    text = '[a]\nlevel = "fatal"\nwrong = "a"\nseen = "b"\nmend = "c"\n'
    with pytest.raises(msgspec.ValidationError, match="fatal"):
        msgspec.toml.decode(text, type=dict[str, Kind])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({}, "the wheel"),
        ({"member": "a"}, "a"),
        ({"member": "a", "offset": 0}, "a byte 0"),
        ({"member": "a", "offset": 7, "id": "zip-crc"}, "a byte 7 of the wheel"),
        ({"offset": 7}, "byte 7 of the wheel"),
        ({"member": "a", "line": 3, "offset": 7}, "a line 3"),
    ],
)
def test_where(where: dict[str, object], said: str) -> None:
    found = Finding(**{"id": "i", "wheel": "w", "got": "g", **where})  # type: ignore[arg-type]
    assert found.where == said
