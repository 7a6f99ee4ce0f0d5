"""A process is known by its number, its start and its boot together."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from qualify import owner


def test_this_process_is_alive_and_survives_the_text() -> None:
    me = owner.current()
    assert me.alive() and owner.parse(me.text()) == me


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_another_process_boot_or_number_is_dead(change: dict[str, int | str]) -> None:
    assert not msgspec.structs.replace(owner.current(), **change).alive()


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.x.boot", "0.0."])
def test_a_label_that_is_none_is_never_alive(text: str) -> None:
    assert not owner.parse(text).alive()


def test_an_ended_process_is_dead() -> None:
    words = [sys.executable, "-c", "from qualify import owner; print(owner.current().text())"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert not owner.parse(text).alive()
