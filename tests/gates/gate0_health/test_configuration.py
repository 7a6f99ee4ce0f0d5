"""The device runs in each configuration that the cell lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.serving import Configuration


@pytest.mark.check("gate0.configuration.runs", obligations=["G0"], kind="focused test")
def test_configuration(
    runtime: emu_runtime.Device, configuration: Configuration, detail: Callable[..., None]
) -> None:
    """What was qualified as one stepping, firmware or power mode ran on another."""
    properties, now = runtime.properties(), runtime.telemetry()
    mode = runtime.power_modes()[now.power_mode]
    told = f"{properties.stepping}/{properties.firmware}/{mode.name}"
    detail(configuration=told, clock_hertz=now.clock_hertz)
    assert told == str(configuration)
    assert now.clock_hertz == mode.clock_hertz
