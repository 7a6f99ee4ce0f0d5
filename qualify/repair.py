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
from qualify.backend import EPOCH, Toolchain, run_in_image
from qualify.errors import BuildError
from qualify.progress import LOG

REPAIR_SECONDS = 300
EXCLUDED = ("libtorch*", "libc10*", "libemudrv.so*", "libemurt.so*")


def repair(wheel: Path, folder: Path, tools: Toolchain) -> Path:
    """Write the repaired `wheel` into the empty `folder` and return its path.

    By the auditwheel of the build image where there is one, so that the bytes that it compresses
    are the image's too. Raises BuildError with auditwheel's words, or when the repair changed more
    than the wheel's metadata.
    """
    log = folder / LOG
    if tools.engine is not None:
        volumes = {wheel.parent: ("/built", "ro"), folder: ("/repaired", "rw")}
        words = ["python3", *repair_words("/repaired"), f"/built/{wheel.name}"]
        ok = run_in_image(tools, words, {"SOURCE_DATE_EPOCH": str(EPOCH)}, volumes, log)
        said = log.read_text(errors="replace")
    else:
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        env = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": str(EPOCH)}
        words = [sys.executable, *repair_words(str(folder)), str(wheel)]
        done = process.run(words, env=env, timeout=REPAIR_SECONDS)
        ok, said = done.ok, done.stderr or done.stdout
    made = sorted(folder.glob("*.whl"))
    if not ok or len(made) != 1:
        raise BuildError(
            f"auditwheel could not repair {wheel.name}",
            expected="a wheel that meets a manylinux policy",
            got=said.strip()[-800:],
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


def repair_words(folder: str) -> list[str]:
    """What Python is to run, before the wheel's name."""
    words = ["-m", "auditwheel", "repair", "--plat", "auto", "-w", folder]
    for pattern in EXCLUDED:
        words += ["--exclude", pattern]
    return words


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
