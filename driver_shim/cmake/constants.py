"""Write the constants of spec/machine.toml that emud needs as a C++ header.

Its firmware and the faults of spec/faults.toml are among them.

Usage: constants.py MACHINE_TOML OUTPUT_HEADER
"""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

CONSTANTS = [
    ("uint64_t", "kMemoryBytes", "memory.bytes"),
    ("uint64_t", "kPageBytes", "memory.page_bytes"),
    ("unsigned", "kAddressBits", "memory.address_bits"),
    ("uint64_t", "kNullGuardBytes", "memory.null_guard_bytes"),
    ("uint64_t", "kRingBytes", "queues.ring_bytes"),
    ("uint32_t", "kMaxQueues", "queues.max_per_context"),
    ("uint64_t", "kTickBudget", "queues.tick_budget"),
    ("uint64_t", "kLaunchSeconds", "queues.launch_seconds"),
    ("uint64_t", "kClientConnections", "client.connections.each"),
    ("uint64_t", "kAllConnections", "client.connections.all"),
    ("uint64_t", "kClientContexts", "client.contexts.each"),
    ("uint64_t", "kAllContexts", "client.contexts.all"),
    ("uint64_t", "kClientMappings", "client.mappings.each"),
    ("uint64_t", "kAllMappings", "client.mappings.all"),
    ("uint64_t", "kClientRegisteredBytes", "client.registered_bytes.each"),
    ("uint64_t", "kAllRegisteredBytes", "client.registered_bytes.all"),
    ("uint64_t", "kClientPrograms", "client.programs.each"),
    ("uint64_t", "kAllPrograms", "client.programs.all"),
    ("uint64_t", "kClientProgramBytes", "client.program_bytes.each"),
    ("uint64_t", "kAllProgramBytes", "client.program_bytes.all"),
    ("uint64_t", "kClientQueues", "client.queues.each"),
    ("uint64_t", "kAllQueues", "client.queues.all"),
    ("uint64_t", "kClientFences", "client.fences.each"),
    ("uint64_t", "kAllFences", "client.fences.all"),
    ("uint64_t", "kHandshakeSeconds", "client.handshake_seconds"),
    ("uint64_t", "kClockHertz", "clock.hertz"),
    ("uint32_t", "kCores", "compute.cores"),
    ("uint64_t", "kCopyFixedTicks", "cost.copy.fixed"),
    ("uint64_t", "kCopyBytesPerTick", "cost.copy.bytes_per_tick"),
    ("double", "kAmbientCelsius", "power.ambient_celsius"),
    ("double", "kCelsiusPerWatt", "power.celsius_per_watt"),
    ("double", "kUtilisationSeconds", "power.utilisation_seconds"),
    ("double", "kThermalSeconds", "power.thermal_seconds"),
    ("double", "kThrottleStartCelsius", "thermal.start_celsius"),
    ("double", "kThrottleStopCelsius", "thermal.stop_celsius"),
    ("double", "kTripCelsius", "thermal.trip_celsius"),
    ("uint32_t", "kLowestClockPercent", "thermal.lowest_clock_percent"),
    ("double", "kMemoryHigh", "memory_pressure.high"),
    ("double", "kMemoryCritical", "memory_pressure.critical"),
    ("uint32_t", "kArgumentGranule", "queues.argument_granule"),
    ("uint32_t", "kMaxFirmwareBytes", "firmware.max_bytes"),
    ("const char*", "kFirmwareKey", "firmware.public_key"),
    ("unsigned", "kEvents", "events.most"),
]
POWER_MODE = [
    ("const char*", "name"),
    ("uint32_t", "clock_percent"),
    ("double", "idle_watts"),
    ("double", "busy_watts"),
]
FAULT = [
    ("const char*", "name"),
    ("emu_status", "status"),
    ("emu_scope", "scope"),
    ("const char*", "recovery"),
]
LINK = [
    ("uint32_t", "low"),
    ("uint32_t", "high"),
    ("uint64_t", "bytes_per_tick"),
    ("uint64_t", "latency_ticks"),
]
ERRATA = ("argument-tail",)
STEPPING = [("const char*", "name"), *(("bool", name.replace("-", "_")) for name in ERRATA)]


class Name(str):
    """A constant of driver.h."""

    __slots__ = ()


def literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Name):
        return str(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


def structs(
    kind: str, array: str, fields: list[tuple[str, str]], rows: list[dict[str, object]]
) -> list[str]:
    """A struct `kind` of `fields`, and an array of it with `rows` in their order."""
    members = " ".join(f"{type_} {name};" for type_, name in fields)
    return [
        f"struct {kind} {{ {members} }};",
        f"inline constexpr {kind} {array}[] = {{",
        *("  {" + ", ".join(literal(row[name]) for _, name in fields) + "}," for row in rows),
        "};",
    ]


def steppings(source: Path, machine: dict) -> list[dict[str, object]]:
    """Each with its name, and for each erratum whether it has it."""
    for stepping in machine["stepping"]:
        unknown = sorted(set(stepping["errata"]) - set(ERRATA))
        if unknown:
            sys.exit(f"{source}: stepping {stepping['name']}: expected {ERRATA}, got {unknown}")
    return [
        {
            "name": stepping["name"],
            **{name.replace("-", "_"): name in stepping["errata"] for name in ERRATA},
        }
        for stepping in machine["stepping"]
    ]


def faults(source: Path) -> list[dict[str, object]]:
    """In the order of their numbers, which count from 1."""
    rows = tomllib.loads(source.read_text())["fault"]
    numbers = [row["number"] for row in rows]
    if numbers != list(range(1, len(rows) + 1)):
        sys.exit(f"{source}: expected faults with the numbers 1, 2, 3, ..., got {numbers}")
    return [
        {
            "name": row["name"],
            "status": Name(f"EMU_ERROR_{row['status']}" if row["status"] else "EMU_OK"),
            "scope": Name(f"EMU_SCOPE_{row['scope'].upper()}"),
            "recovery": row["recovery"],
        }
        for row in rows
    ]


def links(source: Path, machine: dict) -> list[dict[str, object]]:
    """Each with its two devices, the lower one first."""
    rows = []
    for link in machine["links"]["between"]:
        low, high = link["devices"]
        if low >= high or any((low, high) == (row["low"], row["high"]) for row in rows):
            sys.exit(f"{source}: links: expected each pair once, lower first, got {[low, high]}")
        rows.append({**link, "low": low, "high": high})
    return rows


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    machine = tomllib.loads(source.read_text())
    lines = [
        "// Made from spec/machine.toml by cmake/constants.py.",
        "#pragma once",
        "#include <cstdint>",
        '#include "emu/driver.h"',
    ]
    lines.append("namespace emu::constants {")
    for kind, name, path in CONSTANTS:
        value = machine
        for key in path.split("."):
            try:
                value = value[key]
            except KeyError:
                sys.exit(f"{source}: expected key {path}, got none at '{key}'")
        lines.append(f"inline constexpr {kind} {name} = {literal(value)};")
    try:
        lines += structs("PowerMode", "kPowerModes", POWER_MODE, machine["power"]["modes"])
        lines += structs("Stepping", "kSteppings", STEPPING, steppings(source, machine))
        lines += structs("Fault", "kFaults", FAULT, faults(source.parent / "faults.toml"))
        lines += structs("LinkSpec", "kLinks", LINK, links(source, machine))
        image = (source.parent / machine["firmware"]["built_in"]).read_bytes()
    except KeyError as error:
        sys.exit(
            f"{source}: expected power.modes, stepping, links, firmware and faults, got none at "
            f"{error}"
        )
    lines.append(f"inline constexpr unsigned char kFirmware[] = {{{', '.join(map(str, image))}}};")
    lines.append("}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


main()
