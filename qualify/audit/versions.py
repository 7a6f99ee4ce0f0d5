"""Versions and requirements out of texts that anybody may have written.

packaging's errors for what is none, and the same for what it takes and fails on when it is used:
a number longer than Python converts, and a marker that cannot be evaluated. No text is read that is
longer than any that somebody means.
"""

from __future__ import annotations

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

LONGEST = 4000
"""Characters; Python converts up to 4300 digits to a number (sys.int_info)."""
_TOO_LONG = f"more than {LONGEST} characters"


def version(text: str) -> Version:
    if len(text) > LONGEST:
        raise InvalidVersion(_TOO_LONG)
    return Version(text)


def specifiers(text: str) -> SpecifierSet:
    if len(text) > LONGEST:
        raise InvalidSpecifier(_TOO_LONG)
    return SpecifierSet(text)


def requirement(text: str) -> Requirement:
    """Whether a marker can be evaluated, nothing of the environment changes."""
    if len(text) > LONGEST:
        raise InvalidRequirement(_TOO_LONG)
    found = Requirement(text)
    try:
        if found.marker is not None:
            found.marker.evaluate()
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise InvalidRequirement(f"its marker cannot be evaluated: {error}") from error
    return found
