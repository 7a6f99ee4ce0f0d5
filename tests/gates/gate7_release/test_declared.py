"""What the wheels declare is what they need: no more is leaned on, and no less is taken.

A room holds what the gates run with too (NumPy, pytest and what these need), so that a module that
is imported and not declared is there by chance.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest
from gate7_release.environments import Environment, install, make, start, works
from gate7_release.installed import DISTRIBUTIONS, IMPORTS, other_torch
from gate7_release.releases import Releases
from gate7_release.trees import contents
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

EVERY_MODULE = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
"""


@pytest.mark.check("gate7.install.declared_only", obligations=["B8", "I1"], kind="focused test")
def test_declared(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """A package is imported that no metadata asks for: with a user who has it not, `import torch`
    fails."""
    environment = make(tmp_path / "venv")
    needed = closure(DISTRIBUTIONS)
    detail(needed=sorted(needed), out=only(environment, needed))
    done = install("pip", environment, releases.here)
    assert done.status == 0, done.told
    works(environment)
    asked = environment.run(EVERY_MODULE, *sorted(IMPORTS))
    assert asked.status == 0, asked.told
    for name in sorted(contents(releases.here.wheels).programs):
        said = start(environment.root / "bin" / name, "--help")
        assert said.status == 0, f"{name}: {said.told}"


def closure(names: Iterable[str]) -> set[str]:
    """What these need by their metadata, themselves too, as far as it is installed here."""
    found: set[tuple[str, str]] = set()
    pending = [(name, "") for name in names]
    while pending:
        name, extra = pending.pop()
        if (name, extra) in found:
            continue
        try:
            asked = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add((name, extra))
        for each in map(Requirement, asked):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                pending += [(canonicalize_name(each.name), more) for more in ("", *each.extras)]
    return {name for name, _ in found}


def only(environment: Environment, names: set[str]) -> list[str]:
    """Take out of an environment what belongs to none of these, and say what."""
    kept: set[str] = set()
    for distribution in metadata.distributions():
        if canonicalize_name(distribution.metadata["Name"]) in names:
            kept.update(file.parts[0] for file in distribution.files or [])
    out = [entry for entry in sorted(environment.site.iterdir()) if entry.name not in kept]
    for entry in out:
        entry.unlink() if entry.is_symlink() else shutil.rmtree(entry)
    return [entry.name for entry in out if entry.suffix != ".dist-info"]


@pytest.mark.check("gate7.install.torch_patch", obligations=["C1", "I2"], kind="focused test")
def test_patch(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """A patch release of torch comes out, and the wheels cannot be installed beside it, or refuse
    it: made of the room's, with its version rewritten."""
    environment = make(tmp_path / "venv", leave_out=["torch-"])
    here = metadata.version("torch")
    newer = re.sub(r"^(\d+\.\d+)\.\d+", r"\1.99", here)
    detail(made=f"the room's torch {here}, called {newer}")
    folder = environment.site / f"torch-{newer}.dist-info"
    folder.mkdir()
    text = metadata.distribution("torch").read_text("METADATA") or ""
    assert f"\nVersion: {here}\n" in text
    (folder / "METADATA").write_text(text.replace(f"\nVersion: {here}\n", f"\nVersion: {newer}\n"))
    (folder / "RECORD").touch()
    other_torch(environment.site, lambda text: text.replace(here, newer))
    done = install("pip", environment, releases.here)
    assert done.status == 0, done.told
    works(environment)
    asked = environment.run("import torch; print(torch.__version__)")
    # Some builds have a local version ("+cu130") in what they say and none in their metadata.
    assert Version(asked.stdout).base_version == Version(newer).base_version, asked.told
