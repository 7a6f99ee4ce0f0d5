"""What is a stray, and what is only called like one."""

from __future__ import annotations

import msgspec
import pytest
from broken_wheels.good import pure
from broken_wheels.texts import promising

from audit.facts import AUDIT, facts_of
from qualify.audit import judge_content
from qualify.audit.finding import Finding
from qualify.audit.policy import Audit


def found(*names: str, audit: Audit = AUDIT) -> list[Finding]:
    made = pure()
    made.entries |= dict.fromkeys(names, b"a file")
    return list(judge_content.judge(facts_of(made), audit))


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("small/a.pyc", "stray-file"),
        ("small-1.0.data/purelib/small/a.rej", "stray-file"),
        ("small-1.0.data/data/share/schemas/package.json.orig", ""),  # JupyterLab's
        ("small/__init__.py.orig", "stray-file"),
        ("small/core", ""),
        ("core", "stray-file"),
        ("small/.gitignore", ""),
        ("testing.py", ""),
        ("src/a.py", "stray-folder"),
        ("small-1.0.data/platlib/tests/a.py", "stray-folder"),
        ("small-1.0.data/data/tests/a", ""),
        ("a.pth", "startup-code"),
        ("small-1.0.data/purelib/a.pth", "startup-code"),
        ("small-1.0.data/etc/a", "data-scheme"),
    ],
)
def test_names(name: str, id: str) -> None:
    assert [finding.id for finding in found(name)] == ([id] if id else [])


@pytest.mark.parametrize(
    ("line", "id"),
    [
        (b"#!python", ""),
        (b"#!pythonw -E", ""),
        (b"#!python3.11", ""),
        (b"#!/bin/sh -e", ""),
        (b"#! /usr/bin/env python3", ""),
        (b"print()", ""),
        (b"", ""),
        (b"#!/home/builder/venv/bin/python3", "script-interpreter"),
        (b"#!/usr/local/bin/python3.11", "script-interpreter"),
        (b"#!bin/python", "script-interpreter"),
        (b"#!", "script-interpreter"),
    ],
)
def test_interpreters(line: bytes, id: str) -> None:
    made = pure()
    made.entries["small-1.0.data/scripts/tool"] = line + b"\nprint(1)\n"
    made.modes["small-1.0.data/scripts/tool"] = 0o100755
    findings = judge_content.judge(facts_of(made), AUDIT)
    assert [finding.id for finding in findings] == ([id] if id else [])


def test_a_folder_is_told_once() -> None:
    assert len(found("tests/a.py", "tests/b.py", "docs/a.txt")) == 2


def test_startup_code_that_policy_knows() -> None:
    assert found("a.pth", audit=msgspec.structs.replace(AUDIT, startup=("a.pth",))) == []


def test_a_list_of_contents_says_each_file_and_each_pattern() -> None:
    audit = promising(content=("small/*.py", "small/*.dat", "more/*"))(AUDIT)
    got = [(finding.id, finding.member, finding.got) for finding in found(audit=audit)]
    assert got == [
        ("content-unlisted", "small/data.txt", "small/data.txt"),
        ("content-missing", "", "small/*.dat"),
        ("content-missing", "", "more/*"),
    ]


def test_of_a_damaged_archive_nothing_is_said() -> None:
    made = pure()
    made.entries["small/a.pyc"] = b""
    made.then = lambda data: data[:-30]
    assert list(judge_content.judge(facts_of(made), AUDIT)) == []
