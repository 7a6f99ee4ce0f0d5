"""Gives a built wheel the platform tag that its own symbols allow, and nothing else.

auditwheel judges: the result is the oldest manylinux tag of the policies that the
wheel meets. torch's libraries and those of the sibling wheels are found at run time
and are left out. Nothing of the build machine may be grafted in, because a grafted
library would be a second copy with no owner: the programs in the repaired wheel
are the bytes that were built. A wheel that meets no policy (built on a newer
machine than any) keeps the newest tag that tells the truth.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from pathlib import Path

from qualify import process
from qualify.errors import BuildError

EXCLUDED = ("libtorch*", "libc10*", "libemudrv.so*", "libemurt.so*")


def repair(wheel: Path, folder: Path, *, epoch: int) -> Path:
    """Write the repaired `wheel` into the empty `folder` and return its path.

    `epoch` is the time that its entries carry. Raises BuildError with auditwheel's
    words, or when the repair changed more than the wheel's metadata.
    """
    words = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", str(folder)]
    for pattern in EXCLUDED:
        words += ["--exclude", pattern]
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    env = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": str(epoch)}
    done = process.run([*words, str(wheel)], env=env, timeout=300)
    made = sorted(folder.glob("*.whl"))
    if not done.ok or len(made) != 1:
        raise BuildError(
            f"auditwheel could not repair {wheel.name}",
            expected="a wheel that meets a manylinux policy",
            got=(done.stderr or done.stdout).strip()[-800:],
        )
    before, after = contents(wheel), contents(made[0])
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and not re.search(r"\.dist-info/", name)
    )
    if changed:
        raise BuildError(
            f"the repair of {wheel.name} changed its contents",
            expected="only its metadata to change",
            got=", ".join(changed[:5]),
            mend="Link what was grafted statically, or declare the wheel that owns it",
        )
    return made[0]


def contents(wheel: Path) -> dict[str, str]:
    """sha256 of each file in `wheel`, by name. BuildError if it is not a zip."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {
                entry.filename: hashlib.sha256(archive.read(entry)).hexdigest()
                for entry in archive.infolist()
                if not entry.is_dir()
            }
    except zipfile.BadZipFile as error:
        raise BuildError(f"{wheel} is not a wheel: {error}") from error
