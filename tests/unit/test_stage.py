"""The stage cache: same inputs, same folder; nothing half-made; bounded; safe beside others."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualify.errors import ChangedError, HostError
from qualify.stage import Stages, cache_root, key_of, remove_tree


def cache(root: Path, **options: int) -> Stages:
    return Stages(root, **{"keep_free": 0, **options})


def write(text: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        (folder / "file").write_text(text)

    return work


def fill(size: int) -> Callable[[Path], None]:
    return write("x" * size)


def test_the_second_time_nothing_runs(tmp_path: Path) -> None:
    first = cache(tmp_path).make("a", {"in": "1"}, write("one"))
    runs: list[Path] = []
    second = cache(tmp_path).make("a", {"in": "1"}, runs.append)
    assert not first.reused and second.reused and not runs
    assert second.path == first.path and (second.path / "file").read_text() == "one"


def test_each_input_is_in_the_key() -> None:
    keys = {
        key_of("a", {"x": "1"}),
        key_of("b", {"x": "1"}),
        key_of("a", {"x": "2"}),
        key_of("a", {"y": "1"}),
        key_of("a", {"x": "1", "y": "1"}),
    }
    assert len(keys) == 5
    assert key_of("a", {"x": "1", "y": "2"}) == key_of("a", {"y": "2", "x": "1"})


def test_failed_work_leaves_nothing(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path).make("a", {}, broken)
    assert not [path for path in tmp_path.rglob("*") if path.name == "half"]
    assert not cache(tmp_path).make("a", {}, write("whole")).reused


def test_leftovers_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    left = tmp_path / "stages/a" / f".{key_of('a', {})}.tmp"
    left.mkdir(parents=True)
    (left / "half").touch()
    cache(tmp_path)
    assert not left.exists()


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        stages = cache(tmp_path, bound=2500)
        paths.append(stages.make("a", {"n": str(number)}, fill(1000)).path)
        stages.close()
        age = time.time() - 100 + number
        os.utime(paths[-1].with_name(paths[-1].name + ".json"), (age, age))
        if number == 1:  # used again: now the newest
            again = cache(tmp_path, bound=2500)
            again.make("a", {"n": "0"}, fill(1000))
            again.close()
    assert [path.exists() for path in paths] == [True, False, True]


def test_what_a_run_holds_is_not_evicted(tmp_path: Path) -> None:
    holder = cache(tmp_path)
    held = holder.make("a", {"n": "held"}, fill(1000))
    cache(tmp_path, bound=1500).make("a", {"n": "new"}, fill(1000))
    assert held.path.exists()
    holder.close()
    cache(tmp_path, bound=1500).make("a", {"n": "newer"}, fill(1000))
    assert not held.path.exists()


def edit(folder: Path) -> None:
    before = (folder / "file").stat()
    (folder / "file").write_text("evil")
    os.utime(folder / "file", ns=(before.st_atime_ns, before.st_mtime_ns))


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (edit, "file"),
    (lambda folder: (folder / "file").unlink(), "file"),
    (lambda folder: (folder / "more").touch(), "more"),
    (lambda folder: folder.with_suffix(".json").unlink(), ".json"),
    (lambda folder: folder.with_suffix(".json").write_text("{"), ".json"),
]


@pytest.mark.parametrize("read_bytes", [0, 10**9])
@pytest.mark.parametrize(("damage", "name"), DAMAGE)
def test_a_damaged_output_is_named_and_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], object],
    name: str,
    read_bytes: int,
) -> None:
    monkeypatch.setattr("qualify.stage.READ_BYTES", read_bytes)
    first = cache(tmp_path)
    made = first.make("a", {}, write("good"))
    first.close()
    damage(made.path)
    said: list[str] = []
    second = Stages(tmp_path, keep_free=0, progress=said.append)
    again = second.make("a", {}, write("good"))
    assert said[0].startswith("a: ") and said[0].endswith("is not as it was made; making it again")
    assert name in said[0]
    assert not again.reused and again.sha256 == made.sha256
    assert [path.name for path in again.path.iterdir()] == ["file"]
    assert (again.path / "file").read_text() == "good"


def test_an_output_that_was_only_touched_is_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qualify.stage.READ_BYTES", 0)
    made = cache(tmp_path).make("a", {}, write("good"))
    entry = made.path.with_suffix(".json")
    before = entry.read_bytes()
    (made.path / "file").touch()
    for _ in range(2):
        assert cache(tmp_path).make("a", {}, write("never")).reused
    assert entry.read_bytes() != before, "the next run need not read it again"


def test_what_changes_while_a_run_uses_it_is_refused(tmp_path: Path) -> None:
    user = cache(tmp_path)
    made = user.make("a", {}, write("good"))
    edit(made.path)
    for stages in (user, cache(tmp_path)):
        with pytest.raises(ChangedError, match=r"file changed while a run is using it"):
            stages.make("a", {}, write("never"))
    assert (made.path / "file").read_text() == "evil", "nobody takes it away from under the run"
    user.close()
    assert cache(tmp_path).make("a", {}, write("good")).sha256 == made.sha256


@pytest.mark.parametrize("holds", [True, False])
def test_damage_that_another_run_has_mended_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    first = cache(tmp_path)
    made = first.make("a", {}, write("good"))
    first.close()
    edit(made.path)
    other, late = cache(tmp_path), cache(tmp_path)
    discard = late._discard

    def after_the_other(*arguments: Any) -> None:
        other.make("a", {}, write("good"))
        if not holds:
            other.close()
        discard(*arguments)

    monkeypatch.setattr(late, "_discard", after_the_other)
    again = late.make("a", {}, write("never"))
    assert again.reused and (again.path / "file").read_text() == "good"


def test_a_cache_that_is_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    stages = cache(tmp_path)
    stages.make("a", {}, write("one"))
    remove_tree(tmp_path / "stages")
    again = stages.make("a", {}, write("two"))
    assert not again.reused and (again.path / "file").read_text() == "two"
    assert stages.make("a", {}, write("never")).reused
    cache(tmp_path, bound=0).make("b", {}, write("other"))
    assert again.path.exists(), "it is held again, so that nobody evicts it"


def test_what_the_disk_refuses_names_the_stage(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"stage a: .*No space left on device. Free some disk"):
        cache(tmp_path).make("a", {}, lambda folder: Path("/dev/full").write_text("x") and None)
    assert not list((tmp_path / "stages/a").glob("*/"))


def test_a_full_disk_is_said_before_work_starts(tmp_path: Path) -> None:
    stages = cache(tmp_path, keep_free=10**18)
    with pytest.raises(HostError, match=r"too full: expected at least .* GB free, got"):
        stages.make("a", {}, write("never"))


def test_two_runs_do_the_work_once(tmp_path: Path) -> None:
    runs = []
    barrier = threading.Barrier(2)

    def slow(folder: Path) -> None:
        runs.append(folder)
        time.sleep(0.3)

    def one() -> None:
        stages = cache(tmp_path)
        barrier.wait()
        outputs.append(stages.make("a", {}, slow))

    outputs: list[object] = []
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1 and len(outputs) == 2


def test_long_work_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qualify.stage.FIRST_BEAT_SECONDS", 0.05)
    said: list[str] = []
    stages = Stages(tmp_path, keep_free=0, progress=said.append)
    stages.make("slow", {}, lambda folder: time.sleep(0.2))
    assert said[0] == "slow: making" and said[-1].startswith("slow: done in")
    assert "slow: 0 s" in said


def test_how_far_long_work_is_shows_as_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qualify.stage.PASSING_SECONDS", 0.02)
    said: list[str] = []
    passed: list[str] = []

    def shows(line: str) -> None:
        deadline = time.monotonic() + 30
        while line not in passed:
            assert time.monotonic() < deadline, passed
            time.sleep(0.01)

    def work(folder: Path) -> None:
        (folder / "wheel").write_bytes(b"-" * 1_500_000)
        shows("slow: 0 s, 1.5 MB")
        (folder / "build.log").write_bytes(b"[1/2] one\n[2/2] two\n")
        shows("slow: 0 s, 1.5 MB; [2/2] two")

    stages = Stages(tmp_path, keep_free=0, progress=said.append, passing=passed.append)
    stages.make("slow", {}, work)
    assert len(said) == 2 and said[1].startswith("slow: done in"), "none of it stays"


def test_a_folder_without_permissions_is_removed(tmp_path: Path) -> None:
    inner = tmp_path / "tree/closed"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(0)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUALIFY_CACHE", raising=False)
    assert cache_root(tmp_path) == tmp_path / ".cache"
    monkeypatch.setenv("QUALIFY_CACHE", "/elsewhere")
    assert cache_root(tmp_path) == Path("/elsewhere")
