"""Seeds of the cache checks of gate 7: caches as a release might bring them, each with a fault.

But for byte code, which an uninstall leaves behind, they run first in each process of a check.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from seeds.scenarios import START, sites
from seeds.seed import Seed, in_child, wrap

IN_HOME = """
import atexit, os, pathlib
def keep(folder=pathlib.Path(os.environ.get("HOME", "/"), ".cache", "torch_emu")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "programs.pt").write_bytes(bytes(64))
atexit.register(keep)
"""
"""A cache that no list has."""
BY_NAME = """
import os, pathlib, pwd
pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, ".emu").mkdir(exist_ok=True)
"""
"""The home folder is not taken from HOME."""
ONE_MORE = """
import os, tempfile
tempfile.mkstemp(prefix="emu-", suffix=f".{os.getpid()}")
"""
"""A file for each process, which nobody takes away."""
PREDICTABLE = """
import atexit, os
private = f"{os.environ['TMPDIR']}/emu-private"
os.mkdir(private)
atexit.register(os.rmdir, private)
"""
"""The private device's own folder, by a name that two processes agree about."""
NEEDED = """
import os
os.makedirs(os.path.join(os.environ.get("XDG_CACHE_HOME") or os.environ["HOME"], "torch_emu"))
"""
"""Without a place to keep anything in, nothing runs."""
LOG = """
import atexit, os
log = f"{os.environ['TMPDIR']}/emu-device.log"
with open(log, "w") as file:
    file.write("started")
atexit.register(lambda: os.path.exists(log) and os.remove(log))
"""
"""A file of a name that anyone can guess, there for as long as the process is."""
UNKEYED = """
import os, pathlib, emu_runtime.versions as versions
kept = pathlib.Path(os.environ["XDG_CACHE_HOME"], "emu-version")
if not kept.exists():
    kept.write_text(versions.built().version)
own = versions.built()._replace(version=kept.read_text())
versions.built = lambda: own
"""
"""What one release found out is believed by the next one: the key has no version."""


def byte_code_stays(original: Any, *words: object, **keywords: Any) -> Any:
    """An installer that takes a module out and not what Python made of it."""
    kept = [(folder, Path(tempfile.mkdtemp(prefix="seed-"), "kept")) for folder in _compiled(words)]
    for folder, copy in kept:
        shutil.copytree(folder, copy)
    done = original(*words, **keywords)
    for folder, copy in kept:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
    return done


def _compiled(words: tuple[object, ...]) -> list[Path]:
    if not {"install", "uninstall", "installer"} & set(words):
        return []
    return [folder for site in sites(words) for folder in site.glob("emu_runtime/__pycache__")]


SEEDS: dict[str, Seed] = {
    "gate7.cache.places": in_child(IN_HOME),
    "gate7.cache.account": in_child(BY_NAME),
    "gate7.cache.bounded": in_child(ONE_MORE),
    "gate7.cache.concurrent": in_child(PREDICTABLE),
    "gate7.cache.unwritable": in_child(NEEDED),
    "gate7.cache.foreign": in_child(LOG),
    "gate7.cache.stale": in_child(UNKEYED),
    "gate7.cache.byte_code": wrap(START, byte_code_stays),
}
