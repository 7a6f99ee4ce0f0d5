"""What emu-smi makes of readings; the readings themselves are an integration test."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from emu_runtime import smi
from emu_runtime.device import Properties, Telemetry
from emu_runtime.errors import DeviceLostError, NoDriverError
from emu_runtime.smi import Reading


def telemetry(**given: float) -> Telemetry:
    values = {field.name: 0 for field in fields(Telemetry)}
    return Telemetry(**{**values, **given})  # type: ignore[arg-type]


PROPERTIES = Properties(
    name="Emulated accelerator", uuid="u", stepping="A0", firmware="1.2.3", driver="0.1.0",
    node="/dev/emu/emu0", is_private=False, emud_pid=42, interface_version=1000, cores=8,
    max_lanes=4096, memory_bytes=8 * 2**30, clock_hertz=10**9,
)  # fmt: skip


def test_columns_are_aligned_and_complete() -> None:
    now = telemetry(memory_used_bytes=3 * 2**20, device_ticks=200, busy_ticks=50, power_watts=20.5)
    text = smi.table([Reading(0, PROPERTIES, now, None)], {})
    head, rule, row, note = text.splitlines()
    assert set(rule) == {"-"}
    for column, cell in {"memory": "3 MiB of 8,192 MiB", "busy": "25 %", "power": "20.5 W"}.items():
        assert row[head.index(column) :].startswith(cell)
    assert "node /dev/emu/emu0, emud pid 42" in note


def test_busy_is_of_the_interval() -> None:
    before = telemetry(device_ticks=200, busy_ticks=50)
    assert smi.busy(telemetry(device_ticks=300, busy_ticks=150), before) == 100.0
    assert smi.busy(before, before) is None


def test_a_device_that_does_not_answer_is_told_with_its_reason() -> None:
    reading = Reading(1, None, None, DeviceLostError("emud is gone", mend="Start it"))
    text = smi.table([reading], {})
    assert "does not answer" in text
    assert "emu:1: emud is gone. Start it" in text
    assert smi.as_data([reading])["devices"][0]["error"]["cause"] == "emud is gone"  # type: ignore[index]


def test_nothing_works_is_status_1_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> int:
        raise NoDriverError("the driver is missing", mend="Install it")

    monkeypatch.setattr(smi, "device_count", missing)
    assert smi.main([]) == 1
    assert capsys.readouterr().err == "emu-smi: the driver is missing. Install it\n"
    assert smi.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["status"] == 100


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_watch_needs_a_time(text: str) -> None:
    with pytest.raises(SystemExit) as caught:
        smi.main([f"--watch={text}"])
    assert caught.value.code == 2
