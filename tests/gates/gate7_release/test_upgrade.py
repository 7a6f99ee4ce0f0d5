"""From one release to another and back: the tree is that of the release asked for, and it works."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gate7_release import traced
from gate7_release.environments import (
    RESOLVERS,
    Environment,
    alone,
    install,
    installer,
    make,
    start,
    uv,
    works,
)
from gate7_release.installed import DISTRIBUTIONS
from gate7_release.releases import Release, Releases
from gate7_release.trees import differences

POINTS = 5


def move(by: str, environment: Environment, to: Release) -> None:
    """Ask for `to`, and find it there and nothing else."""
    done = install(by, environment, to)
    assert done.status == 0, done.told
    assert differences(environment, *to.wheels) == []


@pytest.mark.check("gate7.upgrade.forward", obligations=["I8", "Q9"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
def test_forward(by: str, tmp_path: Path, releases: Releases) -> None:
    """After an upgrade there are files of the old release, or parts of two releases are mixed."""
    environment = make(tmp_path / "venv")
    move(by, environment, releases.before)
    works(environment)
    links = [f"--find-links={release.folder}" for release in releases[:2]]
    done = RESOLVERS[by](environment, "install", "--upgrade", *links, "torch-emu")
    assert done.status == 0, done.told
    assert differences(environment, *releases.here.wheels) == []
    works(environment)
    move(by, environment, releases.after)
    works(environment)


@pytest.mark.check("gate7.upgrade.rollback", obligations=["I8", "Q9"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
def test_rollback(by: str, tmp_path: Path, releases: Releases) -> None:
    """A user who goes back to the release that worked is left with parts of the newer one."""
    environment = make(tmp_path / "venv")
    move(by, environment, releases.after)
    move(by, environment, releases.here)
    works(environment)
    move(by, environment, releases.before)
    works(environment)


@pytest.mark.check("gate7.upgrade.mixture_refused", obligations=["C3", "I8"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
@pytest.mark.parametrize("part", ["driver", "runtime"])
def test_mixture(by: str, part: str, tmp_path: Path, releases: Releases) -> None:
    """One part is taken back below what the others need, and the installer lets it pass."""
    environment = make(tmp_path / "venv")
    assert installer(environment, *releases.here.wheels).status == 0
    name = {"driver": "emu-driver-shim", "runtime": "emu-runtime"}[part]
    old, new = releases.before.version, releases.here.version
    links = [f"--find-links={release.folder}" for release in releases[:2]]
    words = [*links, f"torch-emu=={new}", f"{name}=={old}"]
    done = RESOLVERS[by](environment, "install", *words)
    said = done.stdout + done.stderr
    assert done.status != 0, done.told
    assert name in said and old in said and new in said, done.told
    assert differences(environment, *releases.here.wheels) == []


@pytest.mark.check("gate7.upgrade.never_down", obligations=["C3", "I8"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
def test_never_down(by: str, tmp_path: Path, releases: Releases) -> None:
    """`--upgrade`, where only an older release is to be had, puts that in its place."""
    environment = make(tmp_path / "venv")
    assert installer(environment, *releases.here.wheels).status == 0
    links = f"--find-links={releases.before.folder}"
    done = RESOLVERS[by](environment, "install", "--upgrade", links, "torch-emu")
    assert done.status == 0, done.told
    assert differences(environment, *releases.here.wheels) == [], done.told


KILLED = """
import atexit, os, runpy, sys
root, limit, told = sys.argv[1], int(sys.argv[2]), sys.argv[3]
changes = 0
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "shutil.move"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def watch(event, arguments):
    global changes
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
        return
    if event in CHANGES or event == "open":
        if any(str(path).startswith(root) for path in arguments[:2]):
            changes += 1
            if changes == limit:
                os.kill(os.getpid(), 9)
def tell():
    with open(told, "w") as file:
        file.write(str(changes))
atexit.register(tell)
sys.addaudithook(watch)
sys.argv = ["pip", *sys.argv[4:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""pip, killed before its LIMIT-th change below ROOT; without a kill it tells how many there are."""

ASK = """
import sys
try:
    import torch
except Exception as error:
    print("IMPORT", error)
    raise SystemExit(3)
try:
    assert torch.ones(8, device="emu").sum().item() == 8
    print("WORKS")
except RuntimeError as error:
    print("SAYS", error)
"""


MEND = ["--force-reinstall", "--no-deps", *DISTRIBUTIONS]
"""What error messages of the runtime say to run. Without it pip takes a part whose metadata it had
written already for one that is installed whole."""
UVS_OWN = re.compile(r"bin/\.tmp\w{6} is left over")
"""A file that uv had half written under a name of its own, which nothing ever takes."""
PIPS_OWN = re.compile(r"\S+\.dist-info/\w+\.tmp is left over")
"""A file that pip was about to put under its name beside the metadata; nobody reads it."""
HINT = "--ignore-installed"
"""What pip itself says to take instead, where it was killed before it had written a RECORD."""


def installing(environment: Environment, to: Release, *words: str) -> list[str | Path]:
    """The command, by that environment's own Python: which is the process that can be killed."""
    return [environment.python, "-m", "pip", "install", f"--find-links={to.folder}", *words]


@pytest.mark.check("gate7.upgrade.interrupted", obligations=["I8"], kind="focused test")
def test_interrupted(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """An upgrade was killed; what is left fails without a word, or cannot be mended."""
    environment = make(tmp_path / "venv")
    count = tmp_path / "changes"

    def upgrade(limit: int) -> None:
        move("uv", environment, releases.before)
        python, _, _, *words = installing(environment, releases.here, "--upgrade", "torch-emu")
        done = start(python, "-c", KILLED, environment.root, str(limit), count, *words)
        assert done.status == (-9 if limit else 0), done.told

    upgrade(0)
    assert differences(environment, *releases.here.wheels) == []
    changes = int(count.read_text())
    seen = {}
    for point in range(POINTS):
        limit = 1 + (changes - 1) * point // (POINTS - 1)
        upgrade(limit)
        asked = environment.run(ASK)
        seen[f"{limit} of {changes}"] = asked.stdout.strip()
        assert asked.status == 0, asked.told
        done = start(*installing(environment, releases.here, *MEND))
        if done.status != 0 and HINT in done.stderr:
            seen[f"{limit} of {changes}"] += f"; mended with {HINT}"
            done = start(*installing(environment, releases.here, HINT, *MEND[1:]))
        assert done.status == 0, done.told
        wrong = differences(environment, *releases.here.wheels)
        assert [line for line in wrong if not PIPS_OWN.fullmatch(line)] == []
    works(environment)
    detail(seen=seen)


@pytest.mark.check("gate7.upgrade.killed", obligations=["I8"], kind="focused test")
def test_killed(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """uv was killed on an upgrade: its kept folders hide what is installed after that, for ever."""
    environment = make(tmp_path / "venv")
    variables = {"UV_NO_CACHE": "0", "UV_CACHE_DIR": str(tmp_path / "cache")}
    variables["UV_LINK_MODE"] = "hardlink"  # what it does where cache and environment share a disk
    links = f"--find-links={releases.here.folder}"

    def wrong(release: Release) -> list[str]:
        found = differences(environment, *release.wheels)
        return [line for line in found if not UVS_OWN.fullmatch(line)]

    def upgrade(limit: int) -> int:
        for path in ours(environment):
            shutil.rmtree(path)
        done = install("uv", environment, releases.before)
        assert done.status == 0, done.told
        assert wrong(releases.before) == []
        words: list[str | Path] = [sys.executable, "-m", "uv", "pip", "install", links]
        words += ["--python", environment.python, "--upgrade", "torch-emu"]
        ended = traced.run(words, environment.root, limit, alone(variables))
        assert ended.status == (-9 if limit else 0), ended
        return ended.changes

    changes = upgrade(0)
    assert wrong(releases.here) == []
    seen = {}
    for point in range(POINTS):
        limit = 1 + (changes - 2) * point // (POINTS - 1)
        upgrade(limit)
        kept = wrong(releases.before)
        changed = kept and wrong(releases.here)
        asked = environment.run(ASK)
        seen[f"{limit} of {changes}"] = f"{len(kept)} files changed; {asked.stdout.strip()}"
        # An entry point whose module is not there yet: nothing of the package can answer for it.
        halfway = not (environment.site / "torch_emu" / "__init__.py").exists()
        assert asked.status == 0 or (halfway and asked.status == 3), asked.told
        assert changed or "WORKS" in asked.stdout, asked.told
        for path in ours(environment):  # as docs/upgrades.md says
            shutil.rmtree(path)
        done = uv(environment, "install", links, "torch-emu")
        assert done.status == 0, done.told
        assert wrong(releases.here) == []
    works(environment)
    detail(seen=seen)


def ours(environment: Environment) -> list[Path]:
    """What the documented command removes."""
    names = [name.replace("-", "_") for name in DISTRIBUTIONS]
    return [path for name in names for path in environment.site.glob(f"{name}*")]
