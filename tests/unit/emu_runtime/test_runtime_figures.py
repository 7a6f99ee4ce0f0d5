"""Shares, rates and delays between two readings."""

from __future__ import annotations

import pytest
from emu_runtime import figures
from readings import telemetry


def test_shares_are_of_the_interval() -> None:
    before = telemetry(device_ticks=100, spent_vector_ticks=100)
    now = telemetry(device_ticks=500, spent_vector_ticks=200, spent_copy_ticks=200)
    shares = figures.shares(now, before)
    assert shares is not None
    assert shares == dict.fromkeys(figures.KINDS, 0) | {"vector": 0.25, "copy": 0.5, "idle": 0.25}
    assert figures.shares(now, now) is None


def test_an_engine_that_catches_up_is_not_idle() -> None:
    """It did 300 ticks of work under 100 of the clock, which another engine had moved before."""
    before = telemetry(device_ticks=1000, spent_idle_ticks=1000)
    now = telemetry(device_ticks=1100, spent_matrix_ticks=300, spent_idle_ticks=800)
    shares = figures.shares(now, before)
    assert shares is not None
    assert shares["matrix"] == 1 and shares["idle"] == 0 and sum(shares.values()) == 1


def test_bandwidth_is_bytes_over_the_time_they_took() -> None:
    now = telemetry(
        bytes_to_device=6000, to_device_ticks=2000, program_bytes=500, spent_control_ticks=100,
        spent_memory_ticks=150,
    )  # fmt: skip
    rates = figures.bandwidths(now, hertz=10**6)
    assert rates == {"to_device": 3e6, "from_device": None, "on_device": None, "programs": 2e6}
    later = telemetry(bytes_to_device=7000, to_device_ticks=3000)
    assert figures.bandwidths(later, 10**6, telemetry(bytes_to_device=6000, to_device_ticks=2000))[
        "to_device"
    ] == pytest.approx(1e6)


def test_delays_are_means() -> None:
    now = telemetry(queued_commands=4, queue_delay_ticks=8000, queue_delay_ns=2000)
    assert figures.mean_delays(now, hertz=10**6) == (2e-3, 0.5e-6)
    assert figures.mean_delays(now, 10**6, now) is None


def test_a_reason_of_a_newer_device_is_its_number() -> None:
    assert figures.throttle_name(telemetry(throttle=1)) == "thermal"
    assert figures.throttle_name(telemetry(throttle=7)) == "number_7"
    assert figures.pressure_name(telemetry(memory_pressure=2)) == "critical"
