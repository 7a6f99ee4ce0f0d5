"""Versions and requirements out of texts that anybody may have written.

packaging's errors for what is none, and the same for what it takes and fails on when it is used:
a number longer than Python converts, and a marker that cannot be evaluated.
"""

from __future__ import annotations

import re

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_LONG = re.compile(r"\d{1000}")
"""Python converts up to 4300 digits (sys.int_info), and fewer where it is told to."""
_TOO_LONG = "a number of a thousand digits or more"


def version(text: str) -> Version:
    if _LONG.search(text):
        raise InvalidVersion(_TOO_LONG)
    return Version(text)


def specifiers(text: str) -> SpecifierSet:
    if _LONG.search(text):
        raise InvalidSpecifier(_TOO_LONG)
    return SpecifierSet(text)


def requirement(text: str) -> Requirement:
    """Whether a marker can be evaluated, nothing of the environment changes."""
    if _LONG.search(text):
        raise InvalidRequirement(_TOO_LONG)
    found = Requirement(text)
    try:
        if found.marker is not None:
            found.marker.evaluate()
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise InvalidRequirement(f"its marker cannot be evaluated: {error}") from error
    return found
