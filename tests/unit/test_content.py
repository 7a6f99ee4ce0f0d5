"""Digests of files, and how a file that changed is told from one that did not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qualify.content import File, code_of, differences, digest_files, digest_of, survey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / "sub").mkdir(parents=True)
    (made / "a").write_text("a")
    (made / "sub/b").write_text("b")
    (made / "link").symlink_to("a")
    return made


def swap(folder: Path) -> None:
    """Other bytes of the same length and times, under the same name: the worst case."""
    before = (folder / "sub/b").stat()
    (folder / "sub/b").write_text("c")
    os.utime(folder / "sub/b", ns=(before.st_atime_ns, before.st_mtime_ns))


def other_file(folder: Path) -> None:
    before = (folder / "sub/b").stat()
    (folder / "new").write_text("c")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").replace(folder / "sub/b")


def relink(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("b")


@pytest.mark.parametrize("read_all", [True, False])
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (swap, "sub/b"),
        (other_file, "sub/b"),
        (relink, "link"),
        (lambda folder: (folder / "a").unlink(), "a"),
        (lambda folder: (folder / "sub/new").touch(), "sub/new"),
        (lambda folder: (folder / "a").chmod(0o755), "a"),
    ],
)
def test_each_change_is_named(
    folder: Path, change: Callable[[Path], object], name: str, read_all: bool
) -> None:
    known = survey(folder)
    assert differences(folder, known, read_all=read_all) == ([], known)
    change(folder)
    changed, found = differences(folder, known, read_all=read_all)
    assert changed == [name]
    assert digest_of(found) != digest_of(known)


@pytest.mark.parametrize("read_all", [True, False])
def test_a_copy_of_a_folder_is_the_same(folder: Path, tmp_path: Path, read_all: bool) -> None:
    known = survey(folder)
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    changed, found = differences(tmp_path / "copy", known, read_all=read_all)
    assert not changed and digest_of(found) == digest_of(known)
    assert found["a"].mark != known["a"].mark


def test_a_file_with_its_known_mark_is_not_read_again(folder: Path) -> None:
    known = survey(folder)
    known["a"] = File("0" * 64, known["a"].mode, known["a"].mark)
    assert differences(folder, known, read_all=False) == ([], known)
    assert differences(folder, known, read_all=True)[0] == ["a"]


def test_the_digest_sees_names_bytes_and_the_execute_bit(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    digests = {digest_files(tmp_path, ["a"])}
    (tmp_path / "a").chmod(0o755)
    digests.add(digest_files(tmp_path, ["a"]))
    (tmp_path / "a").write_text("b")
    digests.add(digest_files(tmp_path, ["a"]))
    (tmp_path / "a").rename(tmp_path / "b")
    digests.add(digest_files(tmp_path, ["b"]))
    assert len(digests) == 4


def test_the_code_of_modules_is_that_of_their_files() -> None:
    assert len({code_of("build"), code_of("repair"), code_of("build", "repair")}) == 3
    with pytest.raises(KeyError):
        code_of("no_such_module")
