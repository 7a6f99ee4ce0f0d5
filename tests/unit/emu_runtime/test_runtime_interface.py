"""The structs in `emu_runtime.interface` are those of the C headers, field for field."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import pytest
from emu_runtime import errors, interface

from qualify.process import run

TREE = Path(__file__).parents[3]
INCLUDES = (TREE / "runtime_pkg" / "include", TREE / "driver_shim" / "include")

STRUCTS = {
    "emurt_error": interface.CError,
    "emurt_device_properties": interface.CDeviceProperties,
    "emurt_memory_stats": interface.CMemoryStats,
    "emurt_counters": interface.CCounters,
    "emurt_telemetry": interface.CTelemetry,
    "emurt_power_mode": interface.CPowerMode,
    "emurt_link_info": interface.CLinkInfo,
    "emurt_activity": interface.CActivity,
    "emurt_api": interface.CApi,
}


def header_layout(folder: Path) -> dict[str, dict[str, list[int]]]:
    """Offset and size of each field, and of the whole under "", as the compiler sees them."""
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("\\"{name}\\": {{");')
        for field, _ in struct._fields_:
            lines.append(
                f'printf("\\"{field}\\": [%zu, %zu], ", offsetof({name}, {field}), '
                f"sizeof((({name}*)0)->{field}));"
            )
        lines.append(f'printf("\\"\\": [0, %zu]}}, ", sizeof({name}));')
    source = folder / "layout.c"
    body = "\n  ".join(lines)
    source.write_text(
        '#include <stdio.h>\n#include "emu/runtime.h"\n'
        f'int main(void) {{\n  printf("{{");\n  {body}\n  printf("\\"end\\": {{}}}}");\n}}\n'
    )
    program = folder / "layout"
    flags = [f"-I{path}" for path in INCLUDES]
    built = run(["cc", "-Wall", "-Werror", *flags, str(source), "-o", str(program)])
    assert built.ok, built.stderr
    layout: dict[str, dict[str, list[int]]] = json.loads(run([program]).stdout)
    return layout


def test_fields_stand_where_the_header_puts_them(tmp_path: Path) -> None:
    layout = header_layout(tmp_path)
    for name, struct in STRUCTS.items():
        ours = {
            field: [getattr(struct, field).offset, getattr(struct, field).size]
            for field, _ in struct._fields_
        }
        ours[""] = [0, ctypes.sizeof(struct)]
        assert ours == layout[name], name


def header_numbers(pattern: str) -> dict[str, int]:
    text = "".join(path.read_text() for folder in INCLUDES for path in folder.rglob("*.h"))
    return {name: int(value) for name, value in re.findall(pattern, text)}


def test_interface_number_is_the_header_s() -> None:
    numbers = header_numbers(r"#define EMURT_INTERFACE_(MAJOR|MINOR) (\d+)")
    assert numbers == {"MAJOR": interface.MAJOR, "MINOR": interface.MINOR}


def test_each_status_of_the_headers_has_its_own_exception() -> None:
    statuses = header_numbers(r"EMU(?:RT)?_ERROR_(\w+)(?: =)? (\d+)")
    assert len(statuses) == 30
    assert set(errors.BY_STATUS) == set(statuses.values())


@pytest.mark.parametrize("kind", errors.BY_STATUS.values())
def test_an_error_says_cause_place_and_mend(kind: type[errors.EmuError]) -> None:
    error = kind("it broke", mend="Mend it", device=1, stream=2, command=3, program="add")
    assert str(error) == "it broke [device 1, stream 2, command 3, program add]. Mend it"
    assert error.status == kind.code


def test_numbers_are_held_to_their_c_types() -> None:
    unsigned = 2**64 - 1
    assert interface.LIMITS["fill"] == [
        (0, -(2**31), 2**31 - 1), (2, 0, unsigned), (3, 0, 255), (4, 0, unsigned),
    ]  # fmt: skip
    assert interface.LIMITS["shutdown"] == []
