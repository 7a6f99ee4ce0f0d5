"""Telemetry and power modes through the runtime, and what emu-smi makes of them on a device."""

from __future__ import annotations

import ctypes
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from device_programs import EMPTY
from prometheus_client.parser import text_string_to_metric_families
from test_runtime_tools import tool

from qualify.process import Completed

pytestmark = pytest.mark.integration


@pytest.fixture
def modes(device: Any) -> Iterator[list[Any]]:
    modes: list[Any] = device.power_modes()
    yield modes
    device.set_power_mode("nominal")


def test_what_was_spent_adds_up(emu: Any, device: Any) -> None:
    figures = importlib.import_module("emu_runtime.figures")
    address = device.alloc(4096)
    before = device.telemetry()
    device.write(address, bytes(4096))
    emu.Module(0, EMPTY).launch((1, 1, 1), b"")
    device.synchronize()
    now = device.telemetry()
    device.free(address)
    for reading in (before, now):
        spent = [getattr(reading, f"spent_{kind}_ticks") for kind in figures.KINDS]
        assert sum(spent) == reading.device_ticks
    assert now.spent_control_ticks - before.spent_control_ticks == 2000
    shares = figures.shares(now, before)
    assert shares["control"] > 0 and sum(shares.values()) == pytest.approx(1)


def test_power_modes_are_known_by_name(emu: Any, device: Any, modes: list[Any]) -> None:
    assert [mode.name for mode in modes] == ["nominal", "eco", "boost"]
    assert [mode.index for mode in modes] == [0, 1, 2]
    device.set_power_mode("eco")
    now = device.telemetry()
    assert now.power_mode == 1 and now.clock_hertz == modes[1].clock_hertz
    with pytest.raises(emu.errors.InvalidArgumentError, match=r"nominal, eco, boost, got 'turbo'"):
        device.set_power_mode("turbo")
    assert device.telemetry().power_mode == 1


def test_a_caller_of_before_1_2_gets_what_it_knows(emu: Any, device: Any) -> None:
    device.telemetry()
    library = importlib.import_module("emu_runtime.library")
    whole = importlib.import_module("emu_runtime.interface").CTelemetry
    room = (ctypes.c_ubyte * ctypes.sizeof(whole))(*[0x5A] * ctypes.sizeof(whole))
    out = whole.from_buffer(room)
    older = whole.spent_matrix_ticks.offset
    assert older == 152
    out.size = older
    library.call("device_telemetry", 0, ctypes.byref(out))
    assert out.size == older and set(room[older:]) == {0x5A}
    out.size = older - 1
    with pytest.raises(emu.errors.InvalidArgumentError, match="size is 151, expected at least 152"):
        library.call("device_telemetry", 0, ctypes.byref(out))


def test_smi_sets_the_power_mode(site: Path) -> None:
    done = tool(site, "smi", "--set-power-mode", "boost", "--json")
    (device,) = json.loads(done.stdout)["devices"]
    assert device["figures"]["power_mode"] == "boost"
    assert device["telemetry"]["clock_hertz"] == 1.25e9
    refused = tool(site, "smi", "--set-power-mode", "turbo")
    assert refused.status == 1
    assert "expected one of nominal, eco, boost, got 'turbo'" in refused.stderr


def test_smi_prints_and_serves_metrics(site: Path) -> None:
    done = tool(site, "smi", "--prometheus")
    assert done.ok, done.stderr
    names = {family.name for family in text_string_to_metric_families(done.stdout)}
    assert {"emu_device_info", "emu_device_temperature_celsius", "emu_device_up"} <= names


def test_smi_serves_until_it_is_interrupted(script: Callable[..., Completed]) -> None:
    """The address that it names is scraped from within, where it is known when it is there."""
    done = script(
        "import _thread, io, sys, threading, time, urllib.request\n"
        "from emu_runtime.smi import main\n"
        "errors = sys.stderr = io.StringIO()\n"
        "def scrape():\n"
        "    while not errors.getvalue().endswith('/metrics\\n'):\n"
        "        time.sleep(0.01)\n"
        "    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "    print(opener.open(errors.getvalue().split()[-1], timeout=60).read().decode())\n"
        "    _thread.interrupt_main()\n"
        "threading.Thread(target=scrape, daemon=True).start()\n"
        "sys.exit(main(['--serve', '0']))\n"
    )
    assert done.status == 130, done.stderr
    assert 'emu_device_up{device="0"} 1' in done.stdout
