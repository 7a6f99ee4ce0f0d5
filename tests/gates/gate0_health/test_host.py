"""The machine around the device, and the diagnosis that a user would run first."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LEAST_KERNEL = (4, 14)  # memfd with seals, and process death signals across namespaces
LEAST_GLIBC = (2, 28)
LEAST_MEMORY = 2 << 30


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("-")[0].split(".")[:2])


@pytest.mark.check("gate0.host.supported", obligations=["B1", "G0"], kind="inspection")
def test_host(detail: Callable[..., None]) -> None:
    """The host is not one that the stack supports, and every later failure is a puzzle."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    glibc = os.confstr("CS_GNU_LIBC_VERSION") or "none"
    detail(
        system=platform.system(),
        machine=platform.machine(),
        kernel=platform.release(),
        glibc=glibc,
        python=platform.python_version(),
        memory_bytes=memory,
        processors=len(os.sched_getaffinity(0)),
    )
    assert (platform.system(), platform.machine()) == ("Linux", "x86_64")
    assert numbers(platform.release()) >= LEAST_KERNEL
    assert glibc.startswith("glibc ") and numbers(glibc.split()[1]) >= LEAST_GLIBC
    assert sys.version_info >= (3, 10)
    assert memory >= LEAST_MEMORY


@pytest.mark.check("gate0.host.shared_memory", obligations=["B1", "G0"], kind="focused test")
def test_shared_memory() -> None:
    """Rings and pinned memory cannot be made, or a seal does not hold."""
    import fcntl

    descriptor = os.memfd_create("probe", os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, 1 << 20)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@pytest.mark.check("gate0.diagnostic.emu_diag", obligations=["B2", "G0"], kind="focused test")
def test_diagnostic(detail: Callable[..., None]) -> None:
    """The first thing that support asks for says that something is wrong, or does not run."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "emu-diag"), "--json"],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
    )
    report = json.loads(done.stdout)
    steps = {step["name"]: step["outcome"] for step in report["steps"]}
    detail(status=done.returncode, steps=steps)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(steps) >= 8
    assert set(steps.values()) == {"passed"}, steps
