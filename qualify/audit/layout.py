"""Where the members of a wheel lie once it is installed, below the prefix of an environment.

As in a virtual environment of a POSIX system: the two folders of packages are one there.
"""

from __future__ import annotations

import re

SITE = "lib/python3/site-packages"
"""Whatever the Python's minor version is."""
_SCHEME = re.compile(r"[^/]+\.data/([^/]+)/")
_OWN_SITE = re.compile(r"lib(?:64)?/python3[^/]*/site-packages/")


def installed_path(member: str) -> str:
    """Where a member goes below the folder of packages; others of .data stay as they are."""
    match = re.match(r"[^/]+\.data/(?:purelib|platlib)/", member)
    return member[match.end() :] if match else member


def place_of(member: str, distribution: str) -> str:
    """Below the prefix. A scheme that installers do not know is a finding of the content."""
    match = _SCHEME.match(member)
    if match is None or match[1] in ("purelib", "platlib"):
        return f"{SITE}/{installed_path(member)}"
    path = member[match.end() :]
    if match[1] == "scripts":
        return f"bin/{path}"
    if match[1] == "headers":
        return f"include/site/python3/{distribution}/{path}"
    return _OWN_SITE.sub(f"{SITE}/", path, count=1) if match[1] == "data" else member
