"""Texts that are right in another form, and the lines that findings name."""

from __future__ import annotations

import pytest
from broken_wheels.good import FOLDER, platform, pure

from audit.facts import facts_of
from qualify.audit import judge_metadata
from qualify.audit.finding import Finding


def found(text: str, old: str, new: str) -> list[Finding]:
    made = pure()
    made.swap(text, old, new)
    return list(judge_metadata.judge(facts_of(made)))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("METADATA", "Name: small", "name: Small"),
        ("METADATA", "Metadata-Version: 2.4", "Metadata-Version: 2.6"),
        ("METADATA", "Version: 1.0\n", "Version: 1\n"),
        ("METADATA", ">=3.10", ">=3.8, !=3.9.*"),
        ("METADATA", "packaging>=24", "packaging (>=24)"),
        ("METADATA", 'extra == "nice"', "extra == 'NICE' and python_version < '4'"),
        ("WHEEL", "Root-Is-Purelib: true", "Root-Is-Purelib: True"),
        ("WHEEL", "Wheel-Version: 1.0", "Wheel-Version: 1.9"),
        ("entry_points.txt", "small:main", "small:main.attribute"),
    ],
)
def test_other_forms(text: str, old: str, new: str) -> None:
    assert found(text, old, new) == []


def test_each_line_that_is_wrong_is_told() -> None:
    findings = found("METADATA", "Requires-Dist: packaging>=24", "Requires-Dist: a=>1\nnonsense")
    assert {(finding.id, finding.line) for finding in findings} == {
        ("metadata-requirement", 5),
        ("metadata-field", 6),
    }
    assert {finding.member for finding in findings} == {f"{FOLDER}/METADATA"}


@pytest.mark.parametrize(
    ("specifier", "wrong"),
    [(">=3.12", True), (">=3.11.5", False), ("<3.11", True), ("==3.11.*", False)],
)
def test_a_tag_of_one_python(specifier: str, wrong: bool) -> None:
    made = pure()
    platform(made, "cp311-cp311-any")
    made.swap("METADATA", ">=3.10", specifier)
    ids = [finding.id for finding in judge_metadata.judge(facts_of(made))]
    assert ids == ["metadata-python-tag"] * wrong


@pytest.mark.parametrize(
    ("tag", "specifier", "wrong"),
    [
        ("py3-none-any", "<3", True),
        ("py3-none-any", ">=3.12,<3.10", True),
        ("py3-none-any", ">=3.12", False),
        ("py2.py3-none-any", ">=3.8", False),
        ("py2.py3-none-any", "<3", False),
        ("py2-none-any", ">=2.7, !=3.0.*", False),
        ("py312-none-any", "<3.12", True),
        ("py310-none-any", ">=3.12", False),
        ("cp312-abi3-manylinux_2_28_x86_64", "<3.12", True),
        ("cp38-abi3-manylinux_2_28_x86_64", ">=3.11", False),
        ("cp311.cp312-none-any", ">=3.12", False),
        ("pp311-pypy311_pp73-manylinux_2_28_x86_64", ">=3.12", True),
        ("graalpy311-graalpy242_311_native-any", "<3", False),
    ],
)
def test_a_tag_of_several_pythons(tag: str, specifier: str, wrong: bool) -> None:
    made = pure()
    platform(made, tag)
    made.swap("METADATA", ">=3.10", specifier)
    ids = [finding.id for finding in judge_metadata.judge(facts_of(made))]
    assert ids == ["metadata-python-tag"] * wrong


@pytest.mark.parametrize(
    ("group", "value", "wrong"),
    [
        ("console_scripts", "small:main", False),
        ("console_scripts", "small.gone:main", True),
        ("console_scripts", "packaging.tags:main", False),  # of a requirement
        ("console_scripts", "small.main", True),
        ("plugins", "small.Class", False),  # as some read it
        ("plugins", "small.gone.Class", True),
    ],
)
def test_modules_of_entry_points(group: str, value: str, wrong: bool) -> None:
    made = pure()
    made.set("entry_points.txt", f"[{group}]\na = {value}\n")
    ids = [finding.id for finding in judge_metadata.judge(facts_of(made))]
    assert ids == ["entry-point-module"] * wrong


def test_without_requirements_nothing_else_has_the_module() -> None:
    made = pure()
    made.set("METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
    made.set("entry_points.txt", "[console_scripts]\na = packaging.tags:main\n")
    (finding,) = judge_metadata.judge(facts_of(made))
    assert finding.id == "entry-point-module"


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("License-Expression: MIT", "License-Expression: MIT OR Apache-2.0", False),
        ("License-Expression: MIT", "License-Expression: Apache License 2.0", True),
        ("License-Expression: MIT", "License: whatever", False),
        ("License-Expression: MIT", "Dynamic: Name", True),
        ("License-Expression: MIT", "Dynamic: Summary", False),
        ("Provides-Extra: nice", "Provides-Extra: nice\nProvides-Extra: a b!c", True),
        ("text/plain", "text/html", True),
        ("text/plain", "text/markdown; charset=UTF-8; variant=GFM", False),
        ("License-Expression: MIT", "Summary: one\n  two", True),
        ("Metadata-Version: 2.4", "Metadata-Version: 2.1", False),  # as indexes took it
    ],
)
def test_values(old: str, new: str, wrong: bool) -> None:
    assert [finding.id for finding in found("METADATA", old, new)] == ["metadata-value"] * wrong


def test_modules_are_found_where_they_are_installed() -> None:
    made = pure()
    made.entries["small-1.0.data/purelib/more/cli.py"] = b""
    made.set("entry_points.txt", "[console_scripts]\nmore = more.cli:main\nno = small.no:main\n")
    (finding,) = judge_metadata.judge(facts_of(made))
    assert (finding.id, finding.line, finding.got) == ("entry-point-module", 3, "no = small.no")
