"""A copy of the checkout, in which a test edits what it asks about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from engines import TREE

FOLDERS = ("driver_shim/", "runtime_pkg/", "framework_plugin/", "containers/", "matrix/")


def copied(target: Path) -> Path:
    """What wheels, rooms and gates are made from; the pipeline itself is this checkout's."""
    words = ["git", "-C", str(TREE), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if name.startswith((*FOLDERS, "tests/gates/")) and (TREE / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, target / name)
    return target
