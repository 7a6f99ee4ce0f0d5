"""What packaging takes and fails on later is told when it is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from packaging.requirements import InvalidRequirement
from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from qualify.audit import versions

LONG = "1" * 5000


@pytest.mark.parametrize(
    ("read", "text", "error"),
    [
        (versions.version, LONG, InvalidVersion),
        (versions.version, "1.x", InvalidVersion),
        (versions.specifiers, f">={LONG}", InvalidSpecifier),
        (versions.specifiers, "3 or so", InvalidSpecifier),
        (versions.requirement, f"small>={LONG}", InvalidRequirement),
        (versions.requirement, f'small; python_version < "{LONG}"', InvalidRequirement),
        (versions.requirement, 'small; os_name ~= "posix"', InvalidRequirement),
        (versions.requirement, 'small; "nice" in extras', InvalidRequirement),
        (versions.requirement, f"small; {'(' * 9999}os_name == 'x'", InvalidRequirement),
    ],
)
def test_refused(read: Callable[[str], object], text: str, error: type[ValueError]) -> None:
    with pytest.raises(error):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        'small[nice]>=1,<2; extra == "nice" and platform_release >= "5.4-generic"',
        'small; python_version >= "three"',
        f"small>={'1' * 900}",
    ],
)
def test_taken(text: str) -> None:
    assert versions.requirement(text).name == "small"
