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


def test_of_a_process_of_another_container_nothing_is_known() -> None:
    """Its number says nothing here: its rooms are not taken for those of a run that died."""
    other = msgspec.structs.replace(owner.current(), pid=2**22 + 1, namespace="1")
    assert not owner.left_behind(other.text())
    assert owner.left_behind(msgspec.structs.replace(other, boot="another").text())


def test_what_was_written_without_a_namespace_is_of_this_one() -> None:
    me = owner.current()
    assert not owner.left_behind(f"{me.pid}.{me.started}.{me.boot}")
    assert owner.left_behind(f"{2**22 + 1}.{me.started}.{me.boot}")


def test_this_process_is_alive_in_a_container_too() -> None:
    words = ["unshare", "--fork", "--pid", "--mount-proc", "--map-root-user", "--", sys.executable]
    asked = "import sys; from qualify import owner; print(owner.left_behind(sys.argv[1]))"
    text = owner.current().text()
    done = subprocess.run([*words, "-c", asked, text], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no namespaces here: {done.stderr}")
    assert done.stdout == "False\n"


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
