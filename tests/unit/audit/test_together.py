"""A set is judged in each environment that it is for, and each finding is told once."""

from __future__ import annotations

import msgspec
from broken_wheels.good import Wheel, pure, renamed

from audit.facts import AUDIT, facts_of
from qualify.audit import together
from qualify.audit.finding import Finding


def tagged(tag: str, name: str = "small", **entries: bytes) -> Wheel:
    made = renamed(pure(), name)
    made.name = f"{name}-1.0-{tag}.whl"
    made.entries |= {f"shared/{path}": data for path, data in entries.items()}
    return made


def found(*wheels: Wheel, pythons: tuple[str, ...] = ("3.11", "3.12")) -> list[Finding]:
    audit = msgspec.structs.replace(AUDIT, pythons=pythons)
    return list(together.judge([facts_of(each) for each in wheels], audit))


def test_wheels_of_one_distribution_for_two_pythons_are_never_side_by_side() -> None:
    one, other = tagged("cp311-none-any", a=b"1"), tagged("cp312-none-any", a=b"2")
    assert found(one, other) == []
    assert found(one, other, tagged("py3-none-any", "other", b=b"")) == []


def test_a_clash_in_one_python_is_found() -> None:
    other = tagged("py3-none-any", "other", a=b"2")
    set_ = tagged("cp311-none-any", a=b"1"), tagged("cp312-none-any"), other
    (finding,) = found(*set_)
    assert (finding.id, finding.wheel) == ("two-owners", "other-1.0-py3-none-any.whl")
    assert found(*set_, pythons=("3.12",)) == []


def test_each_finding_once() -> None:
    assert len(found(tagged("py3-none-any", a=b"1"), tagged("py3-none-any", "other", a=b"2"))) == 1


def test_a_set_that_no_python_has_says_where_each_wheel_is_missing() -> None:
    findings = found(tagged("cp311-none-any"), tagged("cp312-none-any", "other"))
    assert {finding.id for finding in findings} == {"set-unserved"}
    assert {finding.wheel.partition("-")[0]: finding.got for finding in findings} == {
        "small": "not for Python 3.12 any",
        "other": "not for Python 3.11 any",
    }


def test_wheels_that_cannot_be_read_are_no_fault_of_the_set() -> None:
    odd = pure()
    odd.then = lambda data: data[:-30]
    assert found(odd, renamed(pure(), "other")) == []
