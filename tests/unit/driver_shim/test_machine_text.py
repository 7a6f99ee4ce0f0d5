"""Assembler, disassembler, emu-as, emu-objdump and the reference page."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from machine import Machine, Refused
from programs import FLOATS, ISA, OPS, SPEC

from qualify import process

UNIFORM, PREDICATES = ["s7", "s31"], ["p2", "p7"]


def registers(op: dict[str, Any], type_: str, type2: str) -> list[list[tuple[str, str]]]:
    """For each operand the (register, type read) to try; no vector or tile is in two operands."""
    out = []
    for slot, kind in enumerate(op["operands"]):
        base, _, reads = kind.partition(":")
        read = {"": type_, "type2": type2}.get(reads, reads)
        choices = {
            "s": [(s, "") for s in UNIFORM],
            "p": [(p, "") for p in PREDICATES],
            "v": [(f"v{n}", read) for n in (3 + slot, 31 - slot)],
            "m": [(f"m{slot}", read), (f"m{7 - slot}", read)],
        }
        classes = "" if base in ("imm", "label") else base.removeprefix("d")
        out.append([r for c in classes if c in choices for r in choices[c]])
    return out


def definitions(op: dict[str, Any], type_: str, type2: str) -> list[str]:
    """Instructions after which every register that the text below reads may be read."""
    lines = ["load.i64 v20, s0", *(f"cmp.eq.i64 {p}, v20, s0" for p in PREDICATES)]
    for register, read in (r for choices in registers(op, type_, type2) for r in choices):
        if register.startswith("v"):
            lines.append(f"load.{read} {register}, s0")
        if register.startswith("m"):
            lines.append(f"mzero.{read} {register}, s0, s0")
    return lines


def operand_texts(op: dict[str, Any], type_: str, type2: str) -> list[str]:
    """Each operand as each class that it may be."""
    kinds: list[list[str]] = []
    for kind, choices in zip(op["operands"], registers(op, type_, type2), strict=True):
        if kind == "imm":
            real = op["name"] == "const" and type_ in FLOATS
            kinds.append(
                ["-2.5", "inf", "nan", "1e-05"]
                if real
                else ["0"]
                if op["name"] == "arg"
                else ["1", "2"]
            )
        elif kind == "label":
            kinds.append(["there"])
        else:
            kinds.append([register for register, _ in choices])
    texts = [", ".join(choice) for choice in itertools.product(*kinds)]
    may_be_uniform = op["operands"][:1] in (["dvs"], ["dps"])
    return [t for t in texts if not (may_be_uniform and t.startswith("s") and re.search(r", v", t))]


def instructions(op: dict[str, Any]) -> list[tuple[str, str]]:
    """(definitions, instruction) for each type, mode, mask and class of operands."""
    out = []
    masks = ["", "@p2 ", "@!p7 "] if op.get("masked") else [""]
    modes = [f".{m}" for m in op.get("modes", [])] or [""]
    for type_, type2, mode, mask in itertools.product(
        op["types"], op.get("types2", ["-"]), modes, masks
    ):
        suffix = mode + "".join(f".{t}" for t in (type_, type2) if t != "-")
        before = "\n".join(definitions(op, type_, type2))
        out += [
            (before, f"{mask}{op['name']}{suffix} {operands}".strip())
            for operands in operand_texts(op, type_, type2)
        ]
    return out


@pytest.mark.parametrize("name", [n for n in OPS if n not in ("loop", "end", "exit")])
def test_round_trip(machine: Machine, name: str) -> None:
    """What is disassembled is what was written, and assembles to the same bytes."""
    for before, line in instructions(OPS[name]):
        binary = machine.assemble(f".program it .lanes 64 .args 16\n{before}\n{line}\nthere: exit")
        text = machine.disassemble(binary)
        assert machine.assemble(text) == binary
        written = text.splitlines()[-2].strip() if name != "skipz" else line
        assert written.rstrip(":").startswith(line) or name == "skipz", (line, text)


def test_round_trip_of_loops_labels_and_numbers(machine: Machine) -> None:
    lines = [
        ".lanes 128",
        "loop s1, s0",
        "loop s2, s0",
        "skipz s3, here",
        "skipz s3, here",
        "here: end",
        "end",
    ]
    lines += [
        f"const.f64 v1, {x}" for x in ("0.1", "-0.0", "1e300", "5e-324", "123456789.125", "3")
    ]
    lines += ["const.i64 v1, -9223372036854775808", "const.i64 s1, 0x7fffffffffffffff", "exit"]
    binary = machine.assemble("\n".join(lines))
    assert machine.assemble(machine.disassemble(binary)) == binary
    assert "-9223372036854775808" in machine.disassemble(binary)


def test_forms_that_mean_the_same(machine: Machine) -> None:
    plain = machine.assemble(".lanes 64\n.args 0\nconst.f32 v0, 1\ncvt.even.f16.f32 v1, v0\nexit\n")
    other = machine.assemble(
        "; note\n\t.args 0 .lanes 64 ;x\r\n\n const.f32 v0 1.0\ncvt.f16.f32   v1 , v0;y\nexit"
    )
    assert other == plain


ERRORS = {
    "add.f32 v0, v1": "3:1: expected 3 operands, got 2",
    "add.f32 v0, v1, v2, v3": "3:21: expected 3 operands, got another: 'v3'",
    "add.f32 v0,, v1, v2": "3:12: expected an operand, got ','",
    "add.f32 v0, v1, v2,": "3:19: expected an operand, got ','",
    "add.f32 v0, v1, q2": "3:17: expected s0..s31 or v0..v31, got 'q2'",
    "add.f32 v0, v1, v32": "3:17: expected s0..s31 or v0..v31, got 'v32'",
    "add.f32 v0, v1, v01": "3:17: expected s0..s31 or v0..v31, got 'v01'",
    "  addd.f32 v0": "3:3: expected an operation of the instruction set, got 'addd'",
    "add v0, v1, v2": "3:1: expected a type of f32",
    "add.f33 v0, v1, v2": "got 'f33'",
    "add.f8e4m3 v0, v1, v2": "got 'f8e4m3'",
    "cmp.f32 p0, v1, v2": "3:1: expected one of the modes eq ne lt le gt ge",
    "add.f32.f32 v0, v1, v2": "expected nothing more after `add`, got 'f32'",
    "cvt.f32 v0, v1": "expected a second type",
    "@v1 gather.f32 v0, s0, v1": "3:1: expected @p0..@p7 or @!p0, got '@v1'",
    "@p1": "expected an instruction after the mask",
    "skipz s0, nowhere": "3:11: expected a label of this program, got 'nowhere'",
    "a: a: end": "3:4: expected each label once, got 'a' again",
    "b?: end": "3:1: expected a label of letters",
    ".lanes 65": "3:8: expected a power of two from 64 to 4096, got '65'",
    ".args 5000": "3:7: expected 0 to 4096 bytes, got '5000'",
    ".args": "3:1: expected a value after .args",
    ".frob 3": "3:1: expected .program, .lanes or .args, got '.frob'",
    ".program a/b": "3:10: expected a name of up to 63",
    "const.f32 v0, x": "3:15: expected a number such as 1.5",
    "const.f32 v0, 1e999": "3:15: expected a number",
    "const.i32 v0, 1.5": "3:15: expected a 64-bit integer",
    "const.i64 v0, 9223372036854775808": "3:15: expected a 64-bit integer",
    "const.i64 v0, 18446744073709551617": "3:15: expected a 64-bit integer",
    "neg.f32 v0, v1": "3:1: `neg`: operand 2: expected v1 to hold f32 on every path",
}


@pytest.mark.parametrize("line", ERRORS)
def test_errors_say_where_and_what(machine: Machine, line: str) -> None:
    with pytest.raises(Refused) as refused:
        machine.assemble(f".program broken\n.lanes 64\n{line}\nexit")
    assert ERRORS[line] in str(refused.value)


def test_directives_come_first(machine: Machine) -> None:
    with pytest.raises(
        Refused, match=r"1:1: expected `\.lanes N` before the first instruction, got 'exit'"
    ):
        machine.assemble("exit")
    with pytest.raises(Refused, match=r"expected `\.lanes N`"):
        machine.assemble("")
    with pytest.raises(Refused, match="before the first instruction, got it after"):
        machine.assemble(".lanes 64\nsetvl s0, s0\n.args 8\nexit")


def test_tools(native: Path, tmp_path: Path, machine: Machine) -> None:
    text = ".program tool\n.lanes 64\n.args 0\n    exit\n"
    source, binary, back = (tmp_path / name for name in ("a.s", "a.bin", "b.s"))
    source.write_text(text)
    assembler, dump = str(native / "tools" / "emu-as"), str(native / "tools" / "emu-objdump")
    assert process.run([assembler, str(source), "-o", str(binary)]).status == 0
    assert binary.read_bytes() == machine.assemble(text)
    assert process.run([dump, str(binary), "-o", str(back)]).status == 0
    assert back.read_text() == text
    assert process.run([dump], stdin=binary.read_bytes()).stdout == text

    source.write_text(".lanes 64\n  frob\n")
    refused = process.run([assembler, str(source)])
    assert refused.status == 1
    assert refused.stderr.startswith(f"{source}:2:3: expected an operation")
    assert process.run([dump, str(source)]).status == 1
    assert process.run([assembler, "--what"]).status == 2
    missing = process.run([assembler, str(tmp_path / "none.s")])
    assert missing.status == 2 and "none.s: can't be read: No such file" in missing.stderr


@pytest.mark.parametrize("tool", ["emu-as", "emu-objdump"])
def test_tools_say_what_they_cannot_read(native: Path, tool: str, tmp_path: Path) -> None:
    program = str(native / "tools" / tool)
    folder = process.run([program, str(tmp_path)])
    assert (folder.status, folder.stderr) == (2, f"{tmp_path}: can't be read: Is a directory\n")
    endless = process.run([program, "/dev/zero"], timeout=60)
    assert (endless.status, endless.stdout) == (1, "")
    assert endless.stderr == "/dev/zero: expected a program of at most 67108864 bytes, got more\n"


def test_page_is_in_step(tmp_path: Path) -> None:
    page = tmp_path / "isa.md"
    done = process.run([sys.executable, str(SPEC / "generate.py"), "page", str(page)])
    assert done.ok, done.stderr
    kept = SPEC.parents[1] / "docs" / "isa.md"
    assert page.read_text() == kept.read_text(), (
        "docs/isa.md is not what driver_shim/spec says: "
        "run `python driver_shim/spec/generate.py page docs/isa.md`"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("code = 0x0002", "code = 0x0001"), "block: code 0x0001 is taken by arg"),
        (('operands = ["ds", "imm"]', 'operands = ["ds", "zz"]'), "got 'zz'"),
        (('cost = "scalar"', 'cost = "free"'), "no cost class 'free'"),
        (('types = ["i32", "i64", "f32", "f64"]', 'types = ["i33"]'), "got 'i33'"),
        (('"v:i64"', '"v:i65"'), "philox: expected a type or `type2` after ':', got 'v:i65'"),
        (('"v:i64"', '"v:type2"'), "philox: expected a type or `type2` after ':', got 'v:type2'"),
        (("ulp = { f32 = 2", "ulp = { i8 = 2"), "exp: expected a type and a bound, got 'i8'"),
    ],
)
def test_a_malformed_specification_is_refused(
    tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    for name in ("generate.py", "isa.toml", "machine.toml"):
        (tmp_path / name).write_text((SPEC / name).read_text())
    text = (SPEC / "isa.toml").read_text()
    assert change[0] in text
    (tmp_path / "isa.toml").write_text(text.replace(*change, 1))
    done = process.run(
        [sys.executable, str(tmp_path / "generate.py"), "tables", str(tmp_path / "out.h")]
    )
    assert done.status == 1 and reason in done.stderr
    assert not (tmp_path / "out.h").exists()


def test_limits_fit_the_encoding() -> None:
    """Register numbers have six bits, types five, loops a fixed stack."""
    assert max(ISA["registers"].values()) <= 64
    assert len({op["code"] for op in ISA["op"]}) == len(ISA["op"])
