"""Gate 7 looks at what is installed. It has no meaning for a backend that is part of torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate7_release.releases import Releases, read


@pytest.fixture(autouse=True)
def plugin_device(device: str) -> str:
    if device != "emu":
        pytest.skip(f"{device} is not installed by the wheels under test")
    return device


@pytest.fixture(scope="session")
def releases(request: pytest.FixtureRequest) -> Releases:
    """Before, here and after. Without them there is nothing to install, and nothing was shown."""
    folder: Path | None = request.config.getoption("--releases")
    if folder is None:
        pytest.skip("--releases names no folder with the wheels of the releases before and after")
    return read(folder)


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest) -> Path | None:
    """Where the nodes are of devices by emud of each release, if such were handed in."""
    folder: Path | None = request.config.getoption("--nodes")
    return folder


@pytest.fixture(autouse=True)
def newest_host(
    request: pytest.FixtureRequest, nodes: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host is upgraded before its containers: whatever release a check installs, it meets a
    device of the newest. The node that users find first is of the release here, which refuses a
    newer driver."""
    if nodes is not None and "releases" in request.fixturenames:
        monkeypatch.setenv("EMU_DEVICE_DIR", str(nodes / "after"))
