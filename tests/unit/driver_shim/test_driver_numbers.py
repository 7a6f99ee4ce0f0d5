"""The Python enumerations are those of driver.h, and a number that is in neither is no error."""

from __future__ import annotations

import enum
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]
HEADER = (TREE / "driver_shim" / "include" / "emu" / "driver.h").read_text(encoding="utf-8")

ENUMERATIONS = {
    "emu_slot_state": ("emu_driver_shim.firmware", "SlotState", "EMU_SLOT_"),
    "emu_event_kind": ("emu_driver_shim.firmware", "EventKind", "EMU_EVENT_"),
    "emu_fault_kind": ("emu_driver_shim.faults", "FaultKind", "EMU_FAULT_"),
    "emu_activity_kind": ("emu_runtime.activity", "ActivityKind", "EMU_ACTIVITY_"),
    "emu_throttle": ("emu_runtime.device", "Throttle", "EMU_THROTTLE_"),
    "emu_memory_pressure": ("emu_runtime.device", "MemoryPressure", "EMU_MEMORY_PRESSURE_"),
    "emu_scope": ("emu_runtime.errors", "Scope", "EMU_SCOPE_"),
}


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Their driver package is gone again after each test: others say what is without one."""
    for package in ("driver_shim", "runtime_pkg"):
        monkeypatch.syspath_prepend(str(TREE / package / "python"))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "emu_driver_shim"]:
        del sys.modules[name]


def enumeration(c_name: str) -> type[enum.IntEnum]:
    module, name, _ = ENUMERATIONS[c_name]
    found: type[enum.IntEnum] = getattr(importlib.import_module(module), name)
    return found


def in_header(c_name: str) -> dict[str, int]:
    text = re.search(rf"typedef enum {c_name} {{(.*?)}}", HEADER, re.DOTALL)
    assert text is not None
    numbers = re.findall(rf"{ENUMERATIONS[c_name][2]}(\w+) = (\d+)", text.group(1))
    return {name: int(number) for name, number in numbers}


@pytest.mark.parametrize("c_name", ENUMERATIONS)
def test_members_are_those_of_the_header(c_name: str) -> None:
    assert in_header(c_name) == {member.name: member.value for member in enumeration(c_name)}


def test_commands_are_the_activities_that_are_submitted() -> None:
    commands = importlib.import_module("emu_driver_shim.faults").CommandKind
    expected = in_header("emu_activity_kind")
    for not_submitted in ("FAULT", "FIRMWARE"):
        del expected[not_submitted]
    assert {member.name: member.value for member in commands if member.name != "ANY"} == expected


@pytest.mark.parametrize("c_name", [name for name in ENUMERATIONS if name != "emu_scope"])
def test_a_number_of_a_newer_device_stands_for_itself(c_name: str) -> None:
    kind = enumeration(c_name)
    assert kind(4711) == 4711 and kind(4711).name == "NUMBER_4711"
    assert 4711 not in set(kind)
