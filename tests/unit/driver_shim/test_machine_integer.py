"""High halves, shifts and bit counts against Python's integers; Philox against its vectors."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from machine import Machine, Memory
from programs import DTYPES, INTEGERS, OPS, Array, apply, assert_same, edges, pairs, random_values


def width(type_: str) -> int:
    return int(DTYPES[type_].itemsize) * 8


def raw(x: int, type_: str) -> int:
    """The bits of x as a number that is not negative."""
    return x & ((1 << width(type_)) - 1)


def as_type(values: list[int], type_: str) -> Array:
    """The low bits of each."""
    unsigned = np.dtype(f"u{DTYPES[type_].itemsize}")
    return np.array([raw(v, type_) for v in values], dtype=unsigned).view(DTYPES[type_])


BINARY: dict[str, Callable[[int, int, str], int]] = {
    "mulh": lambda a, b, t: (a * b) >> width(t),
    "mulhu": lambda a, b, t: (raw(a, t) * raw(b, t)) >> width(t),
    "shru": lambda a, b, t: raw(a, t) >> b if 0 <= b < width(t) else 0,
}
UNARY: dict[str, Callable[[int, str], int]] = {
    "not": lambda a, t: ~a,
    "popc": lambda a, t: raw(a, t).bit_count(),
    "clz": lambda a, t: width(t) - raw(a, t).bit_length(),
    "ctz": lambda a, t: ((raw(a, t) & -raw(a, t)).bit_length() - 1) if a else width(t),
}


@pytest.mark.parametrize(("op", "type_"), [(o, t) for o in BINARY for t in OPS[o]["types"]])
def test_binary(machine: Machine, op: str, type_: str) -> None:
    a, b = pairs(type_, 81)
    wanted = [BINARY[op](int(x), int(y), type_) for x, y in zip(a, b, strict=True)]
    got = apply(machine, f"{op}.{type_}", [(type_, a), (type_, b)], type_)
    assert_same(got, as_type(wanted, type_), a, b)


@pytest.mark.parametrize(("op", "type_"), [(o, t) for o in UNARY for t in OPS[o]["types"]])
def test_unary(machine: Machine, op: str, type_: str) -> None:
    powers = as_type([1 << k for k in range(width(type_))], type_)
    a = np.concatenate([edges(type_), powers, powers - 1, random_values(type_, 3000, 83)])
    wanted = [UNARY[op](int(x), type_) for x in a]
    assert_same(apply(machine, f"{op}.{type_}", [(type_, a)], type_), as_type(wanted, type_), a)


@pytest.mark.parametrize("op", ["mulh", "popc"])
def test_the_types_are_all_integers(op: str) -> None:
    assert tuple(OPS[op]["types"]) == INTEGERS


# Random123 1.14, tests/kat_vectors, philox4x32 with 10 rounds: counter, key, result.
VECTORS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> list[int]:
    return [int(w, 16) for w in text.split()]


def joined(low: int, high: int) -> int:
    return low | high << 32


def draw(machine: Machine, word: int, key: int, high: int, low: Array) -> Array:
    memory = Memory()
    at, out = memory.place(low), memory.place(np.zeros(low.size, np.uint32))
    lines = [
        ".lanes 256",
        ".args 40",
        *(f"arg.i64 s{i}, {8 * i}" for i in range(5)),
        "setvl s0, s0",
    ]
    lines += ["load.i64 v1, s3", f"philox.w{word}.i32 v0, s1, s2, v1", "store.i32 v0, s4", "exit"]
    args = struct.pack("<qQQqq", low.size, key, high, at, out)
    _, fault = machine.run(machine.assemble("\n".join(lines)), memory, args)
    assert fault is None, fault
    return memory.read(out, low.size, np.uint32)


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_philox_gives_the_published_words(
    machine: Machine, counter: str, key: str, result: str
) -> None:
    c, k = words(counter), words(key)
    low = np.array([joined(c[0], c[1])], dtype=np.uint64).view(np.int64)
    got = [int(draw(machine, w, joined(*k), joined(c[2], c[3]), low)[0]) for w in range(4)]
    assert got == words(result)


def philox(key: int, counter: int) -> list[int]:
    """Written from the paper (Salmon et al., SC11): ten rounds, the key raised between them."""
    c = [counter >> 32 * i & 0xFFFFFFFF for i in range(4)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize("word", range(4))
def test_each_lane_has_its_counter(machine: Machine, word: int) -> None:
    low = random_values("i64", 200, 85)
    key, high = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    got = draw(machine, word, key, high, low)
    wanted = [philox(key, high << 64 | raw(int(x), "i64"))[word] for x in low]
    assert got.tolist() == wanted
