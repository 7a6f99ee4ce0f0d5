"""Requirements that can be met, and how those are told that cannot."""

from __future__ import annotations

import pytest
from broken_wheels.good import pure, renamed

from audit.facts import facts_of
from qualify.audit import judge_requirements, wheel
from qualify.audit.environment import Environment
from qualify.audit.finding import Finding


def found(one: str, other: str, minor: int = 12, version: str = "1.0") -> list[Finding]:
    """Of `small`, in a version, and `other`, with a requirement each."""
    wheels = []
    for name, text, of in (("small", one, version), ("other", other, "1.0")):
        made = renamed(pure(), name, of)
        made.swap("METADATA", "packaging>=24", text)
        wheels.append(facts_of(made))
    said = {each.name: list(wheel.requirements(each)) for each in wheels}
    here = Environment(minor, f"cp3{minor}", "linux", "x86_64")
    return list(judge_requirements.judge(wheels, here, said))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a>=1,<2", "a>=1.5"),
        ("a~=1.4", "a!=1.4"),
        ("a==1.*", "a==1.5"),
        ("a>=1.0rc1", "a<=1.0"),
        ("a", "other-things"),
        ("Other==1.0", "SMALL>=1"),
        ("a<1; python_version < '3.10'", "a>=1"),
        ("a<1; extra == 'nice'", "a>=1"),
        ("a @ https://example.org/a.whl", "a>=1"),
    ],
)
def test_what_can_be_met(one: str, other: str) -> None:
    assert found(one, other) == []


@pytest.mark.parametrize(
    ("one", "other", "got"),
    [
        ("a<1", "a>=1", "a>=1 beside a<1 of small-1.0-py3-none-any.whl"),
        ("a==1.5", "a==1.*,!=1.5", "a!=1.5,==1.* beside a==1.5 of small-1.0-py3-none-any.whl"),
        ("a>=1.0rc1", "a<1.0", "a<1.0 beside a>=1.0rc1 of small-1.0-py3-none-any.whl"),
        ("a>=2,<1", "b", "a<1,>=2 beside nothing"),
        ("a", "small>1", "small>1; small-1.0-py3-none-any.whl is of version 1.0"),
        ("a", "small[Nice]<1", "small[Nice]<1; small-1.0-py3-none-any.whl is of version 1.0"),
    ],
)
def test_what_cannot(one: str, other: str, got: str) -> None:
    (finding,) = found(one, other)
    assert (finding.id, finding.line, finding.got) == ("pins-conflict", 5, got)


def test_a_set_may_be_of_candidates_for_a_release() -> None:
    assert found("a", "small>=1.0rc1", version="1.0rc2") == []


@pytest.mark.parametrize(("minor", "count"), [(11, 1), (12, 0)])
def test_in_which_python(minor: int, count: int) -> None:
    assert len(found("a<1", "a>=1; python_version < '3.12'", minor)) == count


def test_extras_of_extras() -> None:
    """`small[nice]` asks for rich>=13, and `other` forbids that."""
    assert [f.got for f in found("other", "rich<13")] == []
    (finding,) = found("rich<13", "small[nice]")
    assert "rich>=13 beside rich<13" in finding.got
