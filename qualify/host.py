"""What of this machine itself shapes a build or a room that is not in a container."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from qualify.content import sha256_of

DPKG = Path("/var/lib/dpkg/status")


def software(status: Path = DPKG) -> str:
    """A text that changes when packages of this machine do.

    The digest of dpkg's list; where there is no dpkg, the C library's and the system's
    version, which is all that can be told on any machine.
    """
    if status.is_file():
        return f"dpkg {sha256_of(status)}"
    system = platform.freedesktop_os_release()
    return f"{os.confstr('CS_GNU_LIBC_VERSION')}, {system.get('PRETTY_NAME', 'Linux')}"
