"""Gate 0 speaks to the device through the runtime's Python package, in each configuration.

A check that uses `runtime`, `node` or `configuration` is run once for each of the configurations
of `--configurations`, as a case of its own; one that uses `every_configuration` sees to all of
them itself. PyTorch is an oracle here, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gate0_health.serving import Configuration, Node, configurations, served

if TYPE_CHECKING:
    import emu_runtime


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "configuration" in metafunc.fixturenames:
        try:
            every = configurations(str(metafunc.config.getoption("--configurations")))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        metafunc.parametrize("configuration", every, ids=[":".join(one) for one in every])


@pytest.fixture(autouse=True)
def emulated(device: str) -> None:
    if device != "emu":
        pytest.skip(f"{device} has no health suite here: its vendor brings one")


@pytest.fixture(scope="session")
def every_configuration(request: pytest.FixtureRequest) -> list[Configuration]:
    return configurations(str(request.config.getoption("--configurations")))


@pytest.fixture(scope="session")
def devices(
    every_configuration: list[Configuration], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Configuration]]:
    """A device for each configuration, all open in this process: device n is in the nth."""
    import emu_runtime

    folder = tmp_path_factory.mktemp("devices")
    with ExitStack() as stack:
        for number, one in enumerate(every_configuration):
            stack.enter_context(served(folder, *one.options, number=number))
        # Opened for good: what later checks and their children find is as it was.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("EMU_DEVICE_DIR", str(folder))
            for number in range(len(every_configuration)):
                emu_runtime.Device(number).properties()
        yield every_configuration


@pytest.fixture
def runtime(devices: list[Configuration], configuration: Configuration) -> emu_runtime.Device:
    """The device in this configuration, shared by the checks of this process."""
    import emu_runtime

    return emu_runtime.Device(devices.index(configuration))


@pytest.fixture
def node(tmp_path: Path, configuration: Configuration) -> Iterator[Node]:
    """A device in this configuration that several processes share; ended with the check."""
    with served(tmp_path, *configuration.options) as node:
        yield node
