"""Each rule of the verifier refuses a program made for it, and the reason names the place."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from machine import Machine, Refused
from programs import ISA, OPS

HEADER = struct.Struct("<6I64s")
INSTRUCTION = struct.Struct("<HBB6BBBIQ")

GOOD = """
.program good .lanes 64 .args 16
    arg.i64 s0, 8
    const.f32 v0, 1.5
    add.f32 v1, v0, v0
    cmp.lt.f32 p0, v0, v1
    lane.i64 v2
    mzero.f32 m0, s0, s0
    mzero.f32 m1, s0, s0
    loop s1, s0
    skipz s0, next
    block s2, 1
next: end
    @p0 gather.f32 v1, s0, v2
    exit
"""


def instruction(binary: bytes, index: int, **fields: int) -> bytes:
    """The binary with fields of one instruction changed; operand0 to operand5 by number."""
    names = [
        "op",
        "type",
        "type2",
        *(f"operand{i}" for i in range(6)),
        "mask",
        "mode",
        "reserved",
        "imm",
    ]
    at = HEADER.size + index * INSTRUCTION.size
    values = dict(zip(names, INSTRUCTION.unpack_from(binary, at), strict=True))
    assert fields.keys() <= values.keys()
    out = bytearray(binary)
    INSTRUCTION.pack_into(out, at, *{**values, **fields}.values())
    return bytes(out)


def header(binary: bytes, **fields: int | bytes) -> bytes:
    names = ["magic", "version", "lanes", "args", "instructions", "reserved", "name"]
    values = dict(zip(names, HEADER.unpack_from(binary), strict=True))
    return HEADER.pack(*{**values, **fields}.values()) + binary[HEADER.size :]


V, P, M = 1 << 6, 2 << 6, 3 << 6
MUTATIONS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "short header": (lambda b: b[:50], "header: expected 88 bytes, got 50"),
    "magic": (lambda b: b"NOPE" + b[4:], "magic"),
    "version": (lambda b: header(b, version=9), "version: expected 1, got 9"),
    "lanes not a power of two": (lambda b: header(b, lanes=100), "lanes"),
    "too few lanes": (lambda b: header(b, lanes=32), "lanes"),
    "too many lanes": (lambda b: header(b, lanes=8192), "lanes"),
    "too many arguments": (lambda b: header(b, args=4097), "args"),
    "reserved in header": (lambda b: header(b, reserved=1), "reserved"),
    "too long": (lambda b: header(b, instructions=65537), "at most 65536"),
    "cut off": (lambda b: b[:-1], "bytes, got"),
    "more bytes": (lambda b: b + b"x", "bytes, got"),
    "name not terminated": (lambda b: header(b, name=b"x" * 64), "at most 63"),
    "bytes after the name": (lambda b: header(b, name=b"x\0y"), "then zeros"),
    "name with blanks": (lambda b: header(b, name=b"a b"), "then zeros"),
    "unknown operation": (lambda b: instruction(b, 2, op=0x7777), "instruction 2: operation"),
    "type not allowed": (lambda b: instruction(b, 0, type=3), "instruction 0: `arg`: type"),
    "no type": (lambda b: instruction(b, 2, type=0), "got nothing"),
    "unknown type": (lambda b: instruction(b, 2, type=200), "type 200"),
    "second type": (lambda b: instruction(b, 2, type2=1), "second type"),
    "mode of none": (lambda b: instruction(b, 2, mode=1), "mode: expected none"),
    "mode out of range": (lambda b: instruction(b, 3, mode=6), "mode: expected eq ne"),
    "reserved bits": (lambda b: instruction(b, 2, reserved=4), "reserved bits"),
    "register class": (
        lambda b: instruction(b, 2, operand0=P),
        "expected s0..s31 or v0..v31, got p0",
    ),
    "register number": (lambda b: instruction(b, 2, operand1=V | 32), "operand 2"),
    "predicate number": (lambda b: instruction(b, 3, operand0=P | 8), "operand 1"),
    "tile number": (lambda b: instruction(b, 5, operand0=M | 8), "operand 1"),
    "missing operand": (lambda b: instruction(b, 2, operand2=0xFF), "operand 3"),
    "operand too many": (
        lambda b: instruction(b, 2, operand3=V),
        "operand 4: expected an unused slot",
    ),
    "immediate not used": (lambda b: instruction(b, 2, imm=7), "immediate: expected none"),
    "vector to uniform": (
        lambda b: instruction(b, 2, operand0=1),
        "the destination is one, got v0",
    ),
    "mask not allowed": (lambda b: instruction(b, 2, mask=0), "mask: expected none on `add`"),
    "mask out of range": (lambda b: instruction(b, 11, mask=9), "mask: expected p0..p7"),
    "mask not written": (lambda b: instruction(b, 11, mask=3), "mask: expected p3 written"),
    "argument past the end": (lambda b: instruction(b, 0, imm=16), "inside the 16 of .args"),
    "argument far past the end": (
        lambda b: instruction(b, 0, imm=1 << 63),
        "inside the 16 of .args",
    ),
    "argument misaligned": (lambda b: instruction(b, 0, imm=4), "multiple of 8"),
    "axis": (lambda b: instruction(b, 9, imm=3), "axis: expected 0, 1 or 2"),
    "label backward": (lambda b: instruction(b, 8, imm=8), "instruction 8: `skipz`: label"),
    "label past the end": (lambda b: instruction(b, 8, imm=13), "label"),
    "label out of the loop": (lambda b: instruction(b, 8, imm=11), "same loop body"),
    "NaN with a payload": (lambda b: instruction(b, 1, imm=0x7FF8000000000001), "canonical NaN"),
    "no exit": (
        lambda b: instruction(header(b[:-24], instructions=12), 11),
        "expected `exit` as the last",
    ),
}


def test_the_good_twin_loads(machine: Machine) -> None:
    machine.check(machine.assemble(GOOD))


@pytest.mark.parametrize("name", MUTATIONS)
def test_malformed_binary(machine: Machine, name: str) -> None:
    change, reason = MUTATIONS[name]
    with pytest.raises(Refused) as refused:
        machine.check(change(machine.assemble(GOOD)))
    assert reason in str(refused.value)


TEXTS: dict[str, tuple[str, str]] = {
    "not written": ("add.f32 v1, v0, v0", "v0 to hold f32 on every path"),
    "other type": ("const.f32 v0, 1\nadd.f64 v1, v0, v0", "v0 to hold f64, got f32"),
    "cvt source": ("const.f32 v0, 1\ncvt.f32.f64 v1, v0", "v0 to hold f64, got f32"),
    "offsets": ("const.i32 v0, 1\ngather.f32 v1, s0, v0", "v0 to hold i64, got i32"),
    "written on one path": ("skipz s0, a\nconst.f32 v0, 1\na: neg.f32 v1, v0", "on every path"),
    "types differ by path": (
        "const.f64 v0, 1\nskipz s0, a\nconst.f32 v0, 1\na: neg.f32 v1, v0",
        "on every path",
    ),
    "written in a loop that may not run": (
        "loop s0, s1\nconst.f32 v0, 1\nend\nneg.f32 v1, v0",
        "every path",
    ),
    "another type on the second turn": (
        "const.f32 v0, 1\nloop s0, s1\nneg.f32 v1, v0\nconst.f64 v0, 1\nend",
        "v0 to hold f32 on every path",
    ),
    "predicate not written": (
        "const.f32 v0, 1\nsel.f32 v1, p0, v0, v0",
        "p0 written on every path",
    ),
    "predicate of one path": ("skipz s0, a\ncmp.eq.i64 p0, s0, s0\na: any s1, p0", "p0 written"),
    "tile not written": ("mstore.f32 m0, s0, s1", "m0 to hold f32"),
    "tile of another type": (
        "mzero.f64 m0, s0, s0\nmstore.f32 m0, s0, s1",
        "m0 to hold f32, got f64",
    ),
    "accumulator not written": ("mzero.f32 m1, s0, s0\nmma.f32 m0, m1, m1", "m0 to hold f32"),
    "wide accumulator not written": (
        "mzero.f16 m1, s0, s0\nmmaw.f32.f16 m0, m1, m1",
        "m0 to hold f32",
    ),
    "operands of another width": (
        "mzero.f32 m0, s0, s0\nmzero.f32 m1, s0, s0\nmmaw.f32.f16 m0, m1, m1",
        "m1 to hold f16, got f32",
    ),
    "tile converted in place": (
        "mzero.f32 m0, s0, s0\nmcvt.f16.f32 m0, m0",
        "other than the operands",
    ),
    "counter of another type": (
        "lane.i32 v1\nphilox.w0.i32 v0, s0, s1, v1",
        "v1 to hold i64, got i32",
    ),
    "random bits of another type": (
        "lane.i64 v1\nconst.f32 v0, 1\ncvtsr.f16.f32 v2, v0, v1",
        "v1 to hold i32, got i64",
    ),
    "masked atomic keeps what isn't there": (
        "lane.i64 v0\ncmp.eq.i64 p0, v0, s0\n@p0 atom.add.i64 v1, s0, v0, v0",
        "v1 to hold i64",
    ),
    "accumulator is an operand": (
        "mzero.f32 m1, s0, s0\nmma.f32 m1, m1, m1",
        "other than the operands",
    ),
    "masked gather keeps what isn't there": (
        "lane.i64 v0\ncmp.eq.i64 p0, v0, s0\n@p0 gather.f32 v1, s0, v0",
        "v1 to hold f32",
    ),
    "end without loop": ("end", "expected an open `loop`"),
    "loop without end": ("loop s0, s1", "expected an `end`"),
    "nine loops": (
        "\n".join([*(f"loop s{i}, s20" for i in range(9)), *["end"] * 9]),
        "at most 8 loops",
    ),
    "counter written": ("loop s0, s1\nconst.i64 s0, 3\nend", "the counter of the loop at 0"),
    "counter of an outer loop": (
        "loop s0, s1\nloop s0, s1\nend\nend",
        "the counter of the loop at 0",
    ),
    "label into a loop": ("skipz s0, a\nloop s1, s2\na: end", "same loop body"),
    "label into the next loop": (
        "loop s1, s2\nskipz s0, a\nend\nloop s1, s2\na: end",
        "same loop body",
    ),
    "exit in the middle": ("exit", "only as the last"),
    "constant too large": ("const.i8 v0, 128", "-128 to 127, got 128"),
    "constant too small": ("const.u8 v0, -1", "0 to 255, got -1"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_refused_text(machine: Machine, name: str) -> None:
    text, reason = TEXTS[name]
    with pytest.raises(Refused) as refused:
        machine.assemble(f".lanes 64\n{text}\nexit")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "const.f32 v0, 1\nloop s0, s1\nneg.f32 v0, v0\nend\nneg.f32 v1, v0",
        "loop s0, s1\nconst.f32 v0, 1\nneg.f32 v1, v0\nconst.f64 v0, 1\nneg.f64 v1, v0\nend",
        "const.f32 v0, 1\nskipz s0, a\nneg.f32 v0, v0\na: neg.f32 v1, v0",
        "skipz s0, a\nskipz s1, a\na: skipz s2, b\nb:",
        "loop s0, s1\nskipz s2, a\nloop s3, s1\nend\na: end",
    ],
)
def test_what_is_right_on_every_path_loads(machine: Machine, text: str) -> None:
    machine.check(machine.assemble(f".lanes 64\n{text}\nexit"))


def supported(names: list[str]) -> str:
    """As the verifier lists them: by code, and first that none is given."""
    types = [t for t in ISA["types"] if t in names]
    return " ".join((["no type"] if "-" in names else []) + types)


@pytest.mark.parametrize("name", OPS)
def test_what_is_not_supported_is_told_what_is(machine: Machine, name: str) -> None:
    """Each first and second type, and the first mode number, that the operation hasn't."""
    op, codes = OPS[name], {t: entry["code"] for t, entry in ISA["types"].items()}
    good = [(op["types"], "type"), (op.get("types2", ["-"]), "second type")]
    first, second = ([0 if t == "-" else codes[t] for t in names] for names, _ in good)
    base = machine.assemble(".lanes 64\nsetvl s0, s0\nexit")

    def reason(**fields: int) -> str:
        with pytest.raises(Refused) as refused:
            machine.check(instruction(base, 0, op=op["code"], **fields))
        return str(refused.value)

    tried = 0
    for number in range(256):
        got = next(
            (t for t, c in codes.items() if c == number), f"type {number}" if number else "nothing"
        )
        for at, (names, what) in enumerate(good):
            if number in (first, second)[at]:
                continue
            fields = {"type": number} if at == 0 else {"type": first[0], "type2": number}
            wanted = f"instruction 0: `{name}`: {what}: expected {supported(names)}, got {got}"
            assert reason(**fields) == wanted
            tried += 1
    modes = op.get("modes", [])
    wanted = f"mode: expected {' '.join(modes) or 'none'}, got number {max(len(modes), 1)}"
    assert wanted in reason(type=first[0], type2=second[0], mode=max(len(modes), 1))
    assert tried == 512 - len(first) - len(second)


def test_the_longest_program(machine: Machine) -> None:
    longest = ".lanes 64\n" + "setvl s0, s0\n" * 65535 + "exit"
    machine.check(machine.assemble(longest))
    with pytest.raises(Refused, match="at most 65536"):
        machine.assemble(".lanes 64\nsetvl s0, s0\n" + longest.split("\n", 1)[1])
