"""What is in a process that uses the device: the files of the wheels, of the interpreter, of the
system, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gate7_release import mapped, records
from gate7_release.installed import site
from gate7_release.releases import Releases
from gate7_release.trees import contents

USE = """
import torch
x = torch.arange(64.0, device="emu").reshape(8, 8).requires_grad_()
torch.nn.functional.relu(x @ x).sum().backward()
assert x.grad.cpu().isfinite().all()
"""
OURS = {"libemudrv.so", "libemurt.so", "libtorch_emu.so"}


@pytest.mark.check("gate7.install.maps", obligations=["B8", "I4"], kind="focused test")
def test_maps(detail: Callable[..., None]) -> None:
    """A library is loaded from somewhere else: the working directory, a build tree, another
    environment."""
    process = mapped.process(USE)
    owned = mapped.recorded(process)
    others = [path for path in process.files if path not in owned]
    detail(owned=sorted(map(str, owned)), others=[str(path) for path in others])
    assert {path.name for path in owned if path.is_relative_to(site())} >= OURS
    assert [path for path in others if not mapped.of_the_system(path)] == []


@pytest.mark.check("gate7.install.loaded_bytes", obligations=["B8", "I4"], kind="focused test")
def test_bytes(releases: Releases, detail: Callable[..., None]) -> None:
    """What runs is not what was built and judged, though all is installed and at its place.

    For our files the wheels say what that is; for others', RECORD.
    """
    owned = mapped.recorded(mapped.process(USE))
    detail(files=len(owned), bytes=sum(path.stat().st_size for path in owned))
    assert {path.name for path in owned} >= OURS
    ledger = contents(releases.here.wheels).files
    changed = []
    for path, row in owned.items():
        expected = ledger.get(row.name, row.digest)
        algorithm = expected.partition("=")[0] or "sha256"
        if (got := records.digest(path, algorithm)) != expected:
            changed.append(f"{path}: expected {expected or 'a digest'}, got {got}")
    assert changed == []


@pytest.mark.check("gate7.install.one_copy", obligations=["I4"], kind="focused test")
def test_one_copy(detail: Callable[..., None]) -> None:
    """Two copies of one library are in a process, each with a state of its own; or two runtimes
    of OpenMP, each with threads of its own."""
    found = mapped.copies(mapped.process(USE).files)
    detail(libraries=len(found))
    assert {mapped.family(name) for name in OURS} <= set(found)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
