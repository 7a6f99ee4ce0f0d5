"""Environments of their own, in which releases are installed, upgraded and taken out.

Each is a virtual environment whose site folder has what the room has, torch and all, as links,
and nothing of ours: so only our wheels are installed, and an import takes no longer. What an
installer reads of the others (their metadata) is copied, because not each follows links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from child import Finished, run_python
from gate7_release.installed import DISTRIBUTIONS, site
from gate7_release.releases import Release

INSTALL_SECONDS = 120

BRING_UP = """
import torch
x = torch.arange(1024.0)
y = torch.nn.functional.relu(x.to("emu") * 2 - 512)
assert torch.equal(y.cpu(), torch.nn.functional.relu(x * 2 - 512))
assert y.sum().item() == torch.nn.functional.relu(x * 2 - 512).sum().item()
"""


class Environment(NamedTuple):
    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        return Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(self.root)}))

    def run(self, code: str, *arguments: str, **keywords: object) -> Finished:
        """Run `code` with this environment's Python."""
        return run_python(code, *arguments, python=self.python, **keywords)  # type: ignore[arg-type]


def make(root: Path, *, leave_out: Sequence[str] = (), options: Sequence[str] = ()) -> Environment:
    """A new environment at `root`, without what the names of the room's site begin with that are
    in `leave_out`. `options` are those of venv."""
    made = start(sys.executable, "-m", "venv", "--without-pip", *options, root)
    assert made.status == 0, made.told
    environment = Environment(root.resolve())
    ours = {file.parts[0] for name in DISTRIBUTIONS for file in metadata.files(name) or []}
    for entry in site().iterdir():
        out = entry.name in ours or entry.suffix == ".pth" or entry.name == "__pycache__"
        if out or entry.name.startswith(tuple(leave_out)):
            continue
        target = environment.site / entry.name
        if entry.suffix == ".dist-info":
            shutil.copytree(entry, target)
        else:
            target.symlink_to(entry)
    return environment


def start(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Finished:
    """A program with nothing of the network, of caches and of anybody's configuration."""
    done = subprocess.run(
        [str(word) for word in words],
        env=alone(env or {}),
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def alone(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of such a program, and `more`."""
    return {
        **{n: v for n, v in os.environ.items() if not n.startswith(("PIP_", "UV_"))},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_COMPILE": "0",  # at the first import is soon enough, and shows as much
        "PIP_NO_INDEX": "1",
        "UV_NO_CACHE": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_LINK_MODE": "copy",
        **more,
    }


def pip(
    environment: Environment, verb: str, *words: str | Path, env: Mapping[str, str] | None = None
) -> Finished:
    """The room's pip, on another environment."""
    argv = [sys.executable, "-m", "pip", "--python", environment.python, verb, *words]
    return start(*argv, env=env)


def uv(environment: Environment, verb: str, *words: str | Path) -> Finished:
    return start(sys.executable, "-m", "uv", "pip", verb, "--python", environment.python, *words)


def installer(environment: Environment, *wheels: Path) -> Finished:
    """Installs files, one by one, and neither resolves nor replaces anything. It is seen there as a
    link, so that environment's own Python runs it."""
    return start(environment.python, "-m", "installer", *wheels)


RESOLVERS = {"pip": pip, "uv": uv}


def install(by: str, environment: Environment, release: Release, *options: str) -> Finished:
    """Install a release as a user does: by the plugin's name, the rest follows."""
    if by == "installer":
        return installer(environment, *release.wheels)
    links = f"--find-links={release.folder}"
    named = f"torch-emu=={release.version}"
    return RESOLVERS[by](environment, "install", links, named, *options)


def works(environment: Environment, **keywords: object) -> None:
    done = environment.run(BRING_UP, **keywords)
    assert done.status == 0, done.told
