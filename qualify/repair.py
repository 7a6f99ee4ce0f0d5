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
import shutil
import sys
import zipfile
from pathlib import Path

from qualify.backend import (
    EPOCH,
    USUAL,
    Surroundings,
    Toolchain,
    run_here,
    run_in_image,
    with_umask,
)
from qualify.errors import BuildError
from qualify.progress import LOG
from qualify.stage import remove_tree

EXCLUDED = ("libtorch*", "libc10*", "libemudrv.so*", "libemurt.so*")


def repair(wheel: Path, folder: Path, tools: Toolchain, around: Surroundings = USUAL) -> Path:
    """Write the repaired `wheel` into the empty `folder` and return its path.

    By the auditwheel of the build image where there is one, so that the bytes that it compresses
    are the image's too, in the surroundings of the build. Raises BuildError with auditwheel's
    words, or when the repair changed more than the wheel's metadata.
    """
    bench = folder / "bench"
    (bench / "out").mkdir(parents=True)
    try:
        shutil.copy2(wheel, bench)
        said = _auditwheel(bench, wheel.name, tools, around, folder / LOG)
        found = sorted((bench / "out").glob("*.whl"))
        if len(found) != 1:
            raise BuildError(
                f"auditwheel could not repair {wheel.name}",
                expected="a wheel that meets a manylinux policy",
                got=said.strip()[-800:],
            )
        repaired = Path(shutil.copy2(found[0], folder))
    finally:
        remove_tree(bench)
    before, after = contents(wheel), contents(repaired)
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
    return repaired


def _auditwheel(bench: Path, name: str, tools: Toolchain, around: Surroundings, log: Path) -> str:
    """Have it repair the wheel on the `bench` into the folder `out` there. What it said."""
    env = {"SOURCE_DATE_EPOCH": str(EPOCH), **around.environment}
    inside = tools.engine is not None
    place = f"{around.sources}-repair" if inside else str(bench)
    python = "python3" if inside else sys.executable
    # The folders of what it packs have the modes of its umask, so it is the same always.
    words = with_umask([python, *repair_words(f"{place}/out"), f"{place}/{name}"], USUAL)
    if inside:
        ok = run_in_image(tools, words, env, {bench: (place, "rw")}, log, around=around)
    else:
        ok = run_here(words, {**os.environ, **env}, log)
    if not ok:
        remove_tree(bench / "out")
    return log.read_text(errors="replace")


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
