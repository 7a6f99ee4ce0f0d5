"""A process is known by its number, its start and its boot together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from qualify import owner


def test_this_process_is_alive_and_survives_the_text() -> None:
    me = owner.current()
    assert me.alive() and not owner.left_behind(me.text())


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_another_process_boot_or_number_is_dead(change: dict[str, int | str]) -> None:
    other = msgspec.structs.replace(owner.current(), **change)
    assert not other.alive() and owner.left_behind(other.text())


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.x.boot", "1:1:boot"])
def test_a_label_that_is_none_removes_nothing(text: str) -> None:
    assert not owner.left_behind(text)


def test_an_ended_process_is_dead() -> None:
    words = [sys.executable, "-c", "from qualify import owner; print(owner.current().text())"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert owner.left_behind(text)


def test_scratch_of_the_dead_is_removed_and_no_other(tmp_path: Path) -> None:
    dead = msgspec.structs.replace(owner.current(), pid=2**22 + 1)
    left, alive, strange, other = (
        tmp_path / name
        for name in (
            f"kind-{dead.text()}-x",
            f"kind-{owner.current().text()}-y",
            "kind-somebody",
            f"more-{dead.text()}-x",
        )
    )
    for folder in (left, alive, strange, other):
        (folder / "inside").mkdir(parents=True)
    with owner.scratch(tmp_path, "kind-") as mine:
        assert sorted(tmp_path.iterdir()) == sorted([alive, strange, other, mine])
    assert sorted(tmp_path.iterdir()) == sorted([alive, strange, other])
