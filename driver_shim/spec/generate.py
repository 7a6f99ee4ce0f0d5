"""Make the engine's tables and the reference page from isa.toml and machine.toml.

    generate.py tables OUT.h     constants and tables for the C++ engine
    generate.py page OUT.md      docs/isa.md

Runs at build time: Python 3.9 or newer, with tomllib or tomli. The same input gives
the same bytes. A malformed specification ends it with one line: file, place, expected
against got.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = dict[str, Any]

HERE = Path(__file__).resolve().parent
CLASSES = {"s": 1, "v": 2, "p": 4, "m": 8}
OPERANDS = {
    "s": "s", "v": "v", "p": "p", "m": "m", "vs": "vs", "ds": "s", "dv": "v", "dp": "p", "dm": "m",
    "dvs": "vs", "dps": "ps", "imm": "", "label": "",
}  # fmt: skip
KEYWORDS = {"and", "or", "xor", "not", "const"}  # operation names that C++ reserves
SLOTS = 6


class SpecificationError(Exception):
    """The specification says something that the engine can't be built from."""


def read(name: str) -> Table:
    with (HERE / name).open("rb") as file:
        return tomllib.load(file)


def check(isa: Table, machine: Table) -> None:
    """Refuse what would give a table that is wrong without a compiler's noticing."""

    def expect(holds: bool, place: str, message: str) -> None:
        if not holds:
            raise SpecificationError(f"isa.toml: {place}: {message}")

    types = set(isa["types"])
    for name, entry in isa["types"].items():
        expect(0 < entry["code"] < 32, name, f"expected a code of 1 to 31, got {entry['code']}")
    codes: dict[int, str] = {}
    for op in isa["op"]:
        name = op["name"]
        first = codes.setdefault(op["code"], name)
        expect(first == name, name, f"code {op['code']:#06x} is taken by {first}")
        expect(len(op["operands"]) <= SLOTS, name, f"expected at most {SLOTS} operands")
        for kind in op["operands"]:
            base, _, read = kind.partition(":")
            expect(base in OPERANDS, name, f"expected one of {sorted(OPERANDS)}, got {kind!r}")
            known = read in types or read == ("type2" if "types2" in op else "")
            expect(
                known or kind == base, name, f"expected a type or `type2` after ':', got {kind!r}"
            )
        for kind in op["operands"][1:]:
            expect(not kind.startswith("d"), name, "expected the destination as first operand")
        for key in ("types", "types2"):
            for t in op.get(key, ["-"]):
                expect(t == "-" or t in types, name, f"expected a type in `{key}`, got {t!r}")
        expect(op["cost"] in machine["cost"], name, f"no cost class {op['cost']!r}")
        for t, bound in op.get("ulp", {}).items():
            expect(t in op["types"] and bound > 0, name, f"expected a type and a bound, got {t!r}")
        default = op.get("default_mode")
        expect(default is None or default in op["modes"], name, f"no mode {default!r}")


def identifier(name: str) -> str:
    return name + "_" if name in KEYWORDS else name


def type_mask(isa: Table, names: list[str]) -> int:
    return sum(1 << (0 if n == "-" else isa["types"][n]["code"]) for n in names)


def operand(isa: Table, kind: str) -> str:
    base, _, read = kind.partition(":")
    form = base if base in ("imm", "label") else "reg"
    classes = sum(CLASSES[c] for c in OPERANDS[base])
    destination = "true" if base.startswith("d") else "false"
    reads = {"": "kReadsType", "type2": "kReadsType2"}.get(read) or isa["types"][read]["code"]
    return f"{{Form::{form}, {classes}, {destination}, {reads}}}"


def tables(isa: Table, machine: Table) -> str:
    """The header that every part of the engine is compiled with."""
    header, limits, registers = isa["program"], isa["limits"], isa["registers"]
    cost, compute = machine["cost"], machine["compute"]
    slow = cost["f64_slow_in"]
    classes = [c for c, value in cost.items() if isinstance(value, dict) and c != "copy"]
    out = [
        "// Made by spec/generate.py from isa.toml and machine.toml: change those.",
        "#ifndef EMU_ISA_TABLES_H",
        "#define EMU_ISA_TABLES_H",
        "#include <cstdint>",
        "namespace emu::machine {",
        f"constexpr uint32_t kMagic = {header['magic']:#x};",
        f"constexpr uint32_t kVersion = {header['version']};",
        f"constexpr uint32_t kHeaderBytes = {header['bytes']};",
        f"constexpr uint32_t kInstructionBytes = {isa['encoding']['bytes']};",
        f"constexpr uint32_t kSlots = {SLOTS};",
        f"constexpr uint32_t kArgsMost = {machine['queues']['max_args_bytes']};",
    ]
    for key, value in limits.items():
        word = "".join(part.capitalize() for part in key.split("_"))
        out.append(f"constexpr uint32_t k{word} = {value};")
    out += [f"constexpr uint32_t k{c.upper()}Registers = {n};" for c, n in registers.items()]
    out += [
        f"constexpr uint32_t kCores = {compute['cores']};",
        f"constexpr uint32_t kLanesPerTick = {compute['lanes_per_tick']};",
        f"constexpr uint32_t kFmaPerTick = {cost['matrix']['fma_per_tick']};",
        f"constexpr uint32_t kLaunchTicks = {cost['launch']};",
        f"constexpr uint32_t kClearBytesPerTick = {cost['clear_bytes_per_tick']};",
        f"constexpr uint32_t kF64Slow = {cost['f64_slow']};",
        "enum class Type : uint8_t { none = 0, "
        + ", ".join(f"{n} = {t['code']}" for n, t in isa["types"].items())
        + " };",
        "enum class Kind : uint8_t { none, floating, signed_integer, unsigned_integer };",
        "struct TypeInfo { Type type; const char* name; uint32_t bytes; Kind kind; };",
        "inline constexpr TypeInfo kTypes[] = {",
    ]
    kinds = {"float": "floating", "int": "signed_integer", "uint": "unsigned_integer"}
    for name, t in isa["types"].items():
        out.append(f'  {{Type::{name}, "{name}", {t["bytes"]}, Kind::{kinds[t["kind"]]}}},')
    out += [
        "};",
        "enum class CostClass : uint8_t { " + ", ".join(identifier(c) for c in classes) + " };",
        "struct CostRule { uint32_t fixed, per_lane; bool f64_slow; };",
        "inline constexpr CostRule kCosts[] = {",
    ]
    for c in classes:
        rule = cost[c]
        per_lane, is_slow = rule.get("per_lane", 0), str(c in slow).lower()
        out.append(f"  {{{rule['fixed']}, {per_lane}, {is_slow}}},  // {c}")
    out += ["};", "enum class Op : uint16_t {"]
    out += [f"  {identifier(op['name'])} = {op['code']:#06x}," for op in isa["op"]]
    out.append("};")
    for op in isa["op"]:
        for index, mode in enumerate(op.get("modes", [])):
            name = f"k{op['name'].capitalize()}{mode.title().replace('_', '')}"
            out.append(f"constexpr uint8_t {name} = {index};")
    out += [
        "enum class Form : uint8_t { none, reg, imm, label };",
        "constexpr uint8_t kClassS = 1, kClassV = 2, kClassP = 4, kClassM = 8;",
        "// What an operand is read as; any other number is a type's code.",
        "constexpr uint8_t kReadsType = 0, kReadsType2 = 0xff;",
        "struct Operand { Form form; uint8_t classes; bool destination; uint8_t reads; };",
        "struct OpInfo {",
        "  Op op; const char* name; Operand operands[kSlots]; uint8_t operand_count;",
        "  uint32_t types, types2;  // bit n: type of code n; bit 0: no type",
        "  const char* modes[8]; uint8_t mode_count; int8_t default_mode;  // -1: must be given",
        "  bool masked, ordered; CostClass cost;",
        "};",
        "inline constexpr OpInfo kOps[] = {",
    ]
    for op in isa["op"]:
        modes = op.get("modes", [])
        default = modes.index(op["default_mode"]) if "default_mode" in op else -1 if modes else 0
        fields = [
            f"Op::{identifier(op['name'])}",
            f'"{op["name"]}"',
            "{" + ", ".join(operand(isa, k) for k in op["operands"]) + "}",
            str(len(op["operands"])),
            f"{type_mask(isa, op['types']):#x}u",
            f"{type_mask(isa, op.get('types2', ['-'])):#x}u",
            "{" + ", ".join(f'"{m}"' for m in modes) + "}",
            str(len(modes)),
            str(default),
            str(op.get("masked", False)).lower(),
            str(op.get("ordered", False)).lower(),
            f"CostClass::{identifier(op['cost'])}",
        ]
        out.append("  {" + ", ".join(fields) + "},")
    return "\n".join([*out, "};", "}  // namespace emu::machine", "#endif", ""])


def prose(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Comments of isa.toml: those at the top, and those before an [[op]] by its name."""
    opening: list[str] = []
    before: dict[str, list[str]] = {}
    block: list[str] = []
    at_top = True
    for line in text.splitlines():
        if line.startswith("#"):
            block.append(re.sub(r"^# ?", "", line))
        elif at_top and line == "":
            at_top, opening, block = False, block, []
        elif match := re.match(r'name = "(\w+)"$', line):
            before[match[1]] = [b for b in block if not b.startswith("----")]
            block = []
        elif line and not line.startswith("[[op]]"):
            block = []
    return opening, before


def page(isa: Table, machine: Table) -> str:
    """docs/isa.md: the specification for a reader."""
    opening, before = prose((HERE / "isa.toml").read_text(encoding="utf-8"))
    out = [
        "<!-- Made by driver_shim/spec/generate.py: change isa.toml and machine.toml. -->",
        "",
        "# Instruction set",
        "",
        *["    " + line if line.startswith("  ") else line for line in opening[4:]],
        "",
        "## Types",
        "",
        "| type | code | bytes | kind |",
        "|---|---|---|---|",
    ]
    for name, t in isa["types"].items():
        out.append(f"| `{name}` | {t['code']} | {t['bytes']} | {t['kind']} |")
    for title, fields in (("Program header", isa["program"]), ("Instruction", isa["encoding"])):
        out += ["", f"## {title} ({fields['bytes']} bytes, little endian)", ""]
        out += ["| field | type | count |", "|---|---|---|"]
        for field in fields["fields"]:
            out.append(f"| {field['name']} | {field['type']} | {field.get('count', 1)} |")
    out += ["", "## Operations", ""]
    head = ["| operation | code | operands | types | modes | cost |", "|---|---|---|---|---|---|"]
    for number, op in enumerate(isa["op"]):
        if number == 0 or before[op["name"]]:
            notes = before[op["name"]]
            out += ["", *notes, *([""] if notes else []), *head]
        types = " ".join(op["types"])
        if "types2" in op:
            types += " from " + " ".join(op["types2"])
        modes = " ".join(op.get("modes", ["-"]))
        modes += "".join(f", {word}" for word in ("masked", "ordered") if op.get(word))
        signature = ", ".join(op["operands"]) or "-"
        says = op["says"].replace("|", "\\|")
        if "ulp" in op:
            says += "; within " + ", ".join(f"{n} ulp in {t}" for t, n in op["ulp"].items())
        out.append(
            f"| `{op['name']}`: {says} | {op['code']:#06x} | {signature} | {types} "
            f"| {modes} | {op['cost']} |"
        )
    out += ["", "## Cost", "", "| class | fixed | per lane |", "|---|---|---|"]
    for name, rule in machine["cost"].items():
        if isinstance(rule, dict) and "per_lane" in rule:
            out.append(f"| {name} | {rule['fixed']} | {rule['per_lane']} |")
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*out, ""]))


def main(arguments: list[str]) -> int:
    makers = {"tables": tables, "page": page}
    if len(arguments) != 2 or arguments[0] not in makers:
        print("usage: generate.py tables|page OUT", file=sys.stderr)
        return 2
    isa, machine = read("isa.toml"), read("machine.toml")
    try:
        check(isa, machine)
    except SpecificationError as error:
        print(error, file=sys.stderr)
        return 1
    Path(arguments[1]).write_text(makers[arguments[0]](isa, machine), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
