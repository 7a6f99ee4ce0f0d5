"""Write the constants of spec/machine.toml that emud needs, and its firmware, as a C++ header.

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
    ("uint64_t", "kHandshakeSeconds", "client.handshake_seconds"),
    ("uint64_t", "kClockHertz", "clock.hertz"),
    ("uint32_t", "kCores", "compute.cores"),
    ("uint64_t", "kCopyFixedTicks", "cost.copy.fixed"),
    ("uint64_t", "kCopyBytesPerTick", "cost.copy.bytes_per_tick"),
    ("double", "kIdleWatts", "power.modes.0.idle_watts"),
    ("double", "kBusyWatts", "power.modes.0.busy_watts"),
    ("double", "kAmbientCelsius", "power.ambient_celsius"),
    ("double", "kCelsiusPerWatt", "power.celsius_per_watt"),
    ("double", "kUtilisationSeconds", "power.utilisation_seconds"),
    ("double", "kThermalSeconds", "power.thermal_seconds"),
    ("uint32_t", "kArgumentGranule", "queues.argument_granule"),
    ("uint32_t", "kMaxFirmwareBytes", "firmware.max_bytes"),
    ("const char*", "kFirmwareKey", "firmware.public_key"),
    ("unsigned", "kEvents", "events.most"),
]
ERRATA = ("argument-tail",)


def steppings(source: Path, machine: dict) -> list[str]:
    for stepping in machine["stepping"]:
        unknown = sorted(set(stepping["errata"]) - set(ERRATA))
        if unknown:
            sys.exit(f"{source}: stepping {stepping['name']}: expected {ERRATA}, got {unknown}")
    fields = " ".join(f"bool {name.replace('-', '_')};" for name in ERRATA)
    rows = [
        ", ".join([f'"{s["name"]}"', *(str(name in s["errata"]).lower() for name in ERRATA)])
        for s in machine["stepping"]
    ]
    return [
        f"struct Stepping {{ const char* name; {fields} }};",
        f"inline constexpr Stepping kSteppings[] = {{{', '.join(f'{{{row}}}' for row in rows)}}};",
    ]


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    machine = tomllib.loads(source.read_text())
    lines = [
        "// Made from spec/machine.toml by cmake/constants.py.",
        "#pragma once",
        "#include <cstdint>",
    ]
    lines.append("namespace emu::constants {")
    for kind, name, path in CONSTANTS:
        value = machine
        for key in path.split("."):
            try:
                value = value[int(key)] if key.isdigit() else value[key]
            except (KeyError, IndexError):
                sys.exit(f"{source}: expected key {path}, got none at '{key}'")
        text = f'"{value}"' if isinstance(value, str) else str(value)
        lines.append(f"inline constexpr {kind} {name} = {text};")
    lines += steppings(source, machine)
    image = (source.parent / machine["firmware"]["built_in"]).read_bytes()
    lines.append(f"inline constexpr unsigned char kFirmware[] = {{{', '.join(map(str, image))}}};")
    lines.append("}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


main()
