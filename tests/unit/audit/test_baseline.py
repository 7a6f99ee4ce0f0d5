"""The exports that were promised: read, compared with, and only added to."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from broken_wheels.binaries import HARDENED
from broken_wheels.compiler import ADD, library, scripted
from broken_wheels.defect import TREE
from broken_wheels.good import compiled

from audit.facts import AUDIT
from qualify.audit import baseline, report
from qualify.audit.policy import Audit
from qualify.errors import InputError

MEMBER = "small/libadd.so"
MORE = "int more(void) { return 1; }\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(TREE / "matrix", tmp_path / "matrix")
    return tmp_path


def ours(tree: Path) -> Audit:
    """A policy that promises something of `small`, with the exports of `tree`."""
    wheels = tuple(
        msgspec.structs.replace(promise, hardened=False) for promise in HARDENED(AUDIT).wheels
    )
    return msgspec.structs.replace(baseline.read(tree), wheels=wheels)


def wheel(tree: Path, source: str, *flags: str, versions: str = "") -> Path:
    flags = ("-Wl,-soname,libadd.so", *flags)
    data = scripted(source, versions, *flags) if versions else library(source, *flags)
    return compiled(data, MEMBER).write(tree)


def ids(tree: Path, path: Path) -> list[str]:
    return [finding.id for finding in report.audit(path, ours(tree)).findings]


def test_what_is_new_is_written_once(tree: Path) -> None:
    path = wheel(tree, ADD)
    assert ids(tree, path) == ["export-unlisted"]
    assert baseline.extend(tree, ours(tree), [path]) == {MEMBER: ("add",)}
    assert ids(tree, path) == []
    before = baseline.path_of(tree).read_bytes()
    assert baseline.extend(tree, ours(tree), [path]) == {}
    assert baseline.path_of(tree).read_bytes() == before


def test_what_was_promised_is_never_taken_out(tree: Path) -> None:
    baseline.extend(tree, ours(tree), [wheel(tree, ADD)])
    other = wheel(tree, MORE)
    assert sorted(ids(tree, other)) == ["export-missing", "export-unlisted"]
    assert baseline.extend(tree, ours(tree), [other]) == {MEMBER: ("more",)}
    assert ids(tree, other) == ["export-missing"]
    assert ours(tree).exports["small"][MEMBER] == ("add", "more")


def test_versions_are_part_of_a_promise(tree: Path) -> None:
    path = wheel(tree, ADD, versions="SMALL_1 { global: add; local: *; };")
    assert baseline.extend(tree, ours(tree), [path]) == {MEMBER: ("add@SMALL_1",)}
    other = wheel(tree, ADD, versions="SMALL_2 { global: add; local: *; };")
    assert sorted(ids(tree, other)) == ["export-missing", "export-unlisted"]


def test_the_promises_of_other_wheels_stay_as_they_are(tree: Path) -> None:
    before = baseline.read(tree).exports
    baseline.extend(tree, ours(tree), [wheel(tree, ADD)])
    after = baseline.read(tree).exports
    assert {name: after[name] for name in before} == before


def test_of_a_wheel_without_a_promise_nothing_is_written(tree: Path) -> None:
    assert baseline.extend(tree, baseline.read(tree), [wheel(tree, ADD)]) == {}


@pytest.mark.parametrize("text", ["[small]\na = 1\n", "small = 1\n", "[small"])
def test_a_file_with_a_slip_is_refused(tree: Path, text: str) -> None:
    baseline.path_of(tree).write_text(text)
    with pytest.raises(InputError, match=r"exports\.toml"):
        baseline.read(tree)


def test_a_promised_library_that_is_gone_has_lost_all_of_it(tree: Path) -> None:
    baseline.extend(tree, ours(tree), [wheel(tree, ADD)])
    path = compiled(library(MORE), "small/_native.so").write(tree)
    assert ids(tree, path) == ["export-missing"]
