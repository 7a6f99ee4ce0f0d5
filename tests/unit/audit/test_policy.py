"""Patterns, and tables that a slip makes useless."""

from __future__ import annotations

import msgspec
import pytest

from audit.facts import AUDIT
from qualify.audit.archive import Limits
from qualify.audit.policy import Accepted, Audit, Promise, matches


@pytest.mark.parametrize(
    ("name", "patterns", "does"),
    [
        ("a.so", ("*.so",), True),
        ("a.so.1", ("*.so",), False),
        ("x/y/a.so", ("*.so",), True),
        ("A.SO", ("*.so",), False),
        ("a", (), False),
        ("", (), False),
        ("a[1]", ("a[[]1]",), True),
        ("b", ("a", "b"), True),
    ],
)
def test_matches(name: str, patterns: tuple[str, ...], does: bool) -> None:
    assert matches(name, patterns) is does


def test_a_promise_by_its_normalized_name() -> None:
    promise = AUDIT.promise("torch-emu")
    assert promise is not None and promise.hardened
    assert AUDIT.promise("torch_emu") is None


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (Promise, 'name = "a"\nlargest_bytes = 1\nlargest = 2\n'),
        (Promise, 'name = "Small_One"\nlargest_bytes = 1\n'),
        (Accepted, 'finding = "execstack"\nwheel = "b"\n'),  # without a reason
        (Accepted, 'finding = "execstack"\nwheel = "b"\nreason = " "\n'),
        (Accepted, 'finding = "execstak"\nwheel = "b"\nreason = "c"\n'),
        (Limits, "members = 0\nunpacked_bytes = 1\nratio = 1\nratio_above = 1\ntext_bytes = 1\n"),
    ],
)
def test_slips_are_refused(type: type[object], text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.toml.decode(text, type=type)


def test_a_pattern_of_findings_is_accepted() -> None:
    assert Accepted(finding="metadata-*", wheel="*", reason="a toy")


@pytest.mark.parametrize("pythons", [[], ["three"], ["3.11", "2.7"], ["3.11.4"]])
def test_pythons_that_are_none(pythons: list[str]) -> None:
    table = {**msgspec.to_builtins(AUDIT), "pythons": pythons}
    with pytest.raises(msgspec.ValidationError, match="pythons"):
        msgspec.convert(table, Audit)
