"""Paths that two wheels may share, and how a clash is told."""

from __future__ import annotations

import pytest
from broken_wheels.good import pure, renamed

from audit.facts import facts_of
from qualify.audit import judge_owners
from qualify.audit.finding import Finding


def found(one: dict[str, bytes], other: dict[str, bytes]) -> list[Finding]:
    wheels = pure(), renamed(pure(), "other")
    for wheel, entries in zip(wheels, (one, other), strict=True):
        wheel.entries.update(entries)
    return list(judge_owners.judge([facts_of(each) for each in wheels]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shared/a.py", "shared/b.py"),  # a namespace
        ("small-1.0.data/headers/a.h", "other-1.0.data/headers/a.h"),
        ("small-1.0.data/data/share/a", "other-1.0.data/data/share/b"),
        ("shared/a.py", "shared/a.pyi"),
        ("shared/a-b.py", "shared/a-b.so"),  # no name that can be imported
        ("small-1.0.data/scripts/a.py", "other-1.0.data/data/a.so"),
    ],
)
def test_what_may_lie_side_by_side(one: str, other: str) -> None:
    assert found({one: b"one"}, {other: b"other"}) == []


@pytest.mark.parametrize(("data", "word"), [(b"one", "the same bytes"), (b"two", "other bytes")])
def test_the_same_bytes_are_two_owners_too(data: bytes, word: str) -> None:
    """An uninstall of one takes the file of both."""
    (finding,) = found({"shared/a.py": b"one"}, {"other-1.0.data/purelib/shared/a.py": data})
    assert finding.id == "two-owners" and finding.wheel == "other-1.0-py3-none-any.whl"
    assert finding.got == f"shared/a.py, {word}, is of small-1.0-py3-none-any.whl too"


def test_a_folder_of_the_later_and_a_file_of_the_first() -> None:
    """Whichever comes first, the file is told."""
    (finding,) = found({"shared": b"a file"}, {"shared/a": b"a file"})
    assert (finding.id, finding.member) == ("two-owners", "shared")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("shared/a.py", "shared/a/__init__.py"),
        ("shared/a.py", "shared/a.abi3.so"),
        ("shared/a.cpython-311-x86_64-linux-gnu.so", "shared/a.cpython-312-x86_64-linux-gnu.so"),
    ],
)
def test_modules(one: str, other: str) -> None:
    (finding,) = found({one: b"one"}, {other: b"other"})
    assert finding.id == "module-two-owners"
    assert finding.got.startswith(f"shared.a, which {one} of small-1.0")


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("small/a.py", "small/a/__init__.py"), "small/a.py"),
        (("small/a.abi3.so", "small/a/__init__.py"), "small/a.abi3.so"),
        (("small/a.py", "small/a/b.py"), "small/a/b.py"),
        (("small/a.py", "small/a.abi3.so"), ""),  # one beside its compiled form
        (("small/a.py", "small/a/data.json"), ""),
        (("small/a.py", "small/a/b/__init__.py"), "small/a/b/__init__.py"),
        (("small/a.pyi", "small/a/__init__.py"), ""),
        (("small/a-b.py", "small/a-b/c.py"), ""),
        (("small-1.0.data/scripts/a.py", "small/a/b.py"), ""),
    ],
)
def test_modules_beside_folders(names: tuple[str, ...], wrong: str) -> None:
    made = pure()
    made.entries |= dict.fromkeys(names, b"a file")
    findings = list(judge_owners.shadowed([facts_of(made)]))
    assert [finding.got.partition(";")[0] for finding in findings] == ([wrong] if wrong else [])


def test_a_module_that_hides_another_wheel_s_folder() -> None:
    """Whichever comes first, the later wheel is told."""
    one, other = pure(), renamed(pure(), "other")
    one.entries["shared.py"] = b""
    other.entries["shared/a.py"] = b""
    for wheels in ([one, other], [other, one]):
        (finding,) = judge_owners.shadowed([facts_of(each) for each in wheels])
        assert (finding.id, finding.wheel) == ("module-shadowed", wheels[1].name)
        assert finding.got == "shared/a.py; shared.py is imported"


def test_forms_of_unicode_are_one_path_elsewhere() -> None:
    (finding,) = found({"shared/\u00e9": b"one"}, {"shared/e\u0301": b"one"})
    assert finding.id == "two-owners-case"
