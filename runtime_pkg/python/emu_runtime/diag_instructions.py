"""The step of emu-diag on arithmetic: programs of every class of instruction against the host.

Oracles are Python's integers and floats: exact where the instruction set says so, else within the
bound that docs/isa.md states and one unit of the C library's own.
"""

from __future__ import annotations

import array
import functools
import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu_runtime.diag_memory import holding
from emu_runtime.diagnosis import Figures, Finding, Plan
from emu_runtime.stream import Module

SEED = 20_240_229
LANES = 256
_MASK = 2**32 - 1

_FRAME = """\
.program diag_{name}
.lanes {lanes}
.args 24
  arg.i64 s0, 0
  arg.i64 s1, 8
  arg.i64 s2, 16
{body}
  exit
"""


@dataclass(frozen=True)
class Case:
    """`body` works on arrays at s0 and s1 and leaves `expected`, of typecode `out`, at s2."""

    name: str
    body: str
    a: array.array[int] | array.array[float]
    b: array.array[int] | array.array[float]
    out: str
    expected: Sequence[int] | Sequence[float]
    ulps: int = 0


def _wrapped(value: int, bits: int = 32) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _kept(mantissa: int, value: float, unused: float) -> float:
    """To so many bits behind the leading one, ties to even; for values that stay normal."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, mantissa + 1)), exponent - mantissa - 1)


def _integers(source: random.Random) -> list[Case]:
    a = array.array("i", source.randbytes(4 * LANES))
    b = array.array("i", [source.randrange(1, 1 << 20) * source.choice((-1, 1)) for _ in a])
    two = "  load.i32 v0, s0\n  load.i32 v1, s1\n"
    store = "\n  store.i32 v2, s2"
    pairs = list(zip(a, b, strict=True))

    def quotient(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    def case(name: str, lines: str, oracle: Callable[[int, int], int]) -> Case:
        expected = [_wrapped(oracle(x, y)) for x, y in pairs]
        return Case(name, two + lines + store, a, b, "i", expected)

    return [
        case("alu", "  mul.i32 v2, v0, v1\n  sub.i32 v2, v2, v0", lambda x, y: x * y - x),
        case("bits", "  xor.i32 v2, v0, v1\n  popc.i32 v2, v2", _different_bits),
        case("divide", "  div.i32 v2, v0, v1", quotient),
        case("remainder", "  rem.i32 v2, v0, v1", lambda x, y: x - quotient(x, y) * y),
        case("select", "  cmp.lt.i32 p0, v0, v1\n  sel.i32 v2, p0, v0, v1", min),
        case("scan", "  scan.sum.i32 v2, v0", _prefix_sums(a)),
        case("reduce", "  reduce.sum.i32 s3, v0\n  mov.i32 v2, s3", lambda x, y: sum(a)),
        case(
            "loop",
            "  const.i64 s3, 10\n  const.i32 s5, 0\n  loop s4, s3\n  add.i32 s5, s5, s4\n  end\n"
            "  mov.i32 v2, s5",
            lambda x, y: sum(range(10)),
        ),
    ]  # fmt: skip


def _different_bits(x: int, y: int) -> int:
    return ((x ^ y) & _MASK).bit_count()


def _prefix_sums(values: Sequence[int]) -> Callable[[int, int], int]:
    total = 0

    def next_one(x: int, y: int) -> int:
        nonlocal total
        total += x
        return total

    return next_one


def _floats(source: random.Random) -> list[Case]:
    a = array.array("f", [source.uniform(0.1, 8) for _ in range(LANES)])
    b = array.array("f", [source.uniform(0.1, 8) for _ in range(LANES)])
    two = "  load.f32 v0, s0\n  load.f32 v1, s1\n"
    pairs = list(zip(a, b, strict=True))

    def case(name: str, lines: str, oracle: Callable[[float, float], float]) -> Case:
        expected = [_single(oracle(x, y)) for x, y in pairs]
        return Case(name, f"{two}{lines}\n  store.f32 v2, s2", a, b, "f", expected)

    # A sum, quotient or root of two f32 in f64, rounded again, is the one rounding of f32.
    alu = "  mul.f32 v2, v0, v1\n  add.f32 v2, v2, v0"
    cases = [
        case("f32_alu", alu, lambda x, y: _single(x * y) + x),
        case("f32_divide", "  div.f32 v2, v0, v1", lambda x, y: x / y),
        case("f32_sqrt", "  sqrt.f32 v2, v0", lambda x, y: math.sqrt(x)),
    ]  # fmt: skip
    for name, mantissa in (("f16", 10), ("bf16", 7), ("f8e4m3", 3), ("f8e5m2", 2)):
        lines = f"  cvt.even.{name}.f32 v3, v0\n  cvt.even.f32.{name} v2, v3"
        kept = functools.partial(_kept, mantissa)
        cases.append(case(f"convert_{name}", lines, kept))
    return cases


# Bounds in units in the last place, as docs/isa.md states them for f64.
_FUNCTIONS: dict[str, tuple[Callable[[float], float], int]] = {
    "exp": (math.exp, 2),
    "log": (math.log, 2),
    "tanh": (math.tanh, 3),
    "log2": (math.log2, 2),
    "log1p": (math.log1p, 2),
    "expm1": (math.expm1, 2),
    "sin": (math.sin, 1),
    "cos": (math.cos, 1),
    "erf": (math.erf, 2),
    "exp2": (lambda x: 2.0**x, 2),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 2),
}


def _doubles(source: random.Random) -> list[Case]:
    a = array.array("d", [source.uniform(0.01, 20) for _ in range(LANES)])
    b = array.array("d", [source.uniform(-3, 3) for _ in range(LANES)])
    load, store = "  load.f64 v0, s0\n", "\n  store.f64 v2, s2"
    cases = [
        Case(name, f"{load}  {name}.f64 v2, v0{store}", a, b, "d", [oracle(x) for x in a], ulps + 1)
        for name, (oracle, ulps) in _FUNCTIONS.items()
    ]
    two = f"{load}  load.f64 v1, s1\n"
    powers = [x**y for x, y in zip(a, b, strict=True)]
    products = [x * y + y for x, y in zip(a, b, strict=True)]
    alu = f"{two}  mul.f64 v2, v0, v1\n  add.f64 v2, v2, v1{store}"
    return [
        *cases,
        Case("pow", f"{two}  pow.f64 v2, v0, v1{store}", a, b, "d", powers, 2),
        Case("f64_alu", alu, a, b, "d", products),
    ]


def _memory(source: random.Random) -> list[Case]:
    a = array.array("i", source.randbytes(4 * LANES))
    order = list(range(LANES))
    source.shuffle(order)
    offsets = array.array("q", [4 * place for place in order])
    scattered = [0] * LANES
    counted = [0] * LANES
    for value, place in zip(a, order, strict=True):
        scattered[place] = value
        counted[place % 4] = _wrapped(counted[place % 4] + value)
    few = array.array("q", [4 * (place % 4) for place in order])
    load = "  load.i32 v0, s0\n  load.i64 v1, s1\n"
    return [
        Case(
            "gather",
            "  load.i64 v1, s1\n  gather.i32 v2, s0, v1\n  store.i32 v2, s2",
            a, offsets, "i", [a[place] for place in order],
        ),
        Case("scatter", f"{load}  scatter.i32 v0, s2, v1", a, offsets, "i", scattered),
        Case("atomic", f"{load}  red.add.i32 v0, s2, v1", a, few, "i", counted),
        Case(
            "strided",
            f"  const.i64 s3, {4 * (LANES - 1)}\n  add.i64 s3, s0, s3\n  const.i64 s4, -4\n"
            "  loads.i32 v2, s3, s4\n  store.i32 v2, s2",
            a, offsets, "i", list(reversed(a)),
        ),
    ]  # fmt: skip


def _philox(key: int, counter: int) -> int:
    """Word 0 of Philox 4x32-10 (Salmon et al., SC11)."""
    words = [counter >> shift & _MASK for shift in (0, 32, 64, 96)]
    low, high = key & _MASK, key >> 32
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (second >> 32) ^ words[1] ^ low,
            second & _MASK,
            (first >> 32) ^ words[3] ^ high,
            first & _MASK,
        ]
        low, high = low + 0x9E3779B9 & _MASK, high + 0xBB67AE85 & _MASK
    return words[0]


def _others(source: random.Random) -> list[Case]:
    side = 16
    counters = array.array("q", [source.getrandbits(62) for _ in range(LANES)])
    key, upper = source.getrandbits(62), source.getrandbits(62)
    numbers = [_wrapped(_philox(key, upper << 64 | low)) for low in counters]
    left = array.array("b", [source.randrange(-128, 128) for _ in range(side * side)])
    right = array.array("b", [source.randrange(-128, 128) for _ in range(side * side)])
    product = [
        sum(left[row * side + k] * right[k * side + column] for k in range(side))
        for row in range(side)
        for column in range(side)
    ]
    # Whole numbers: f32 holds every product and sum of these exactly.
    wide_left, wide_right = array.array("f", left), array.array("f", right)
    shape = f"  const.i64 s3, {side}\n  const.i64 s4, {{0}}\n  const.i64 s5, {4 * side}\n"

    def tiles(type_: str, size: int, zero: str, multiply: str) -> str:
        return (
            shape.format(size * side) + f"  mload.row.{type_} m0, s0, s4, s3, s3\n"
            f"  mload.row.{type_} m1, s1, s4, s3, s3\n  mzero.{zero} m2, s3, s3\n"
            f"  {multiply} m2, m0, m1\n  mstore.row.{zero} m2, s2, s5"
        )

    return [
        Case(
            "philox",
            f"  load.i64 v1, s0\n  const.i64 s3, {key}\n  const.i64 s4, {upper}\n"
            "  philox.w0.i32 v2, s3, s4, v1\n  store.i32 v2, s2",
            counters, counters, "i", numbers,
        ),
        Case("matrix_i8", tiles("i8", 1, "i32", "mmai.i32.i8"), left, right, "i", product),
        Case("matrix_f32", tiles("f32", 4, "f32", "mma.f32"), wide_left, wide_right, "f", product),
    ]  # fmt: skip


def cases(source: random.Random) -> list[Case]:
    makers = (_integers, _floats, _doubles, _memory, _others)
    return [case for make in makers for case in make(source)]


def check(case: Case, got: array.array[int] | array.array[float]) -> None:
    for lane, (expected, found) in enumerate(zip(case.expected, got, strict=True)):
        bound = case.ulps * math.ulp(expected) if case.ulps else 0
        if not abs(found - expected) <= bound:
            raise Finding(
                f"instructions of '{case.name}': lane {lane}: expected {expected!r}, got {found!r}",
                "Run the machine's conformance tests: its arithmetic is wrong",
            )


def instructions(plan: Plan) -> Figures:
    rounds = plan.pick(1, 3, 20)
    checked: set[str] = set()
    lanes = 0
    for number in range(rounds):
        for case in cases(random.Random(SEED + number)):
            result = array.array(case.out, case.expected)
            data = [x.tobytes() for x in (case.a, case.b)] + [bytes(len(result.tobytes()))]
            with holding(plan) as held:
                addresses = [held.alloc(len(each)) for each in data]
                for address, each in zip(addresses, data, strict=True):
                    held.device.write(address, each)
                text = _FRAME.format(name=case.name, lanes=LANES, body=case.body)
                arguments = array.array("q", addresses).tobytes()
                Module(plan.device, text).launch((1, 1, 1), arguments)
                got = array.array(case.out, held.device.read(addresses[2], len(data[2])))
            check(case, got)
            checked.add(case.name)
            lanes += len(got)
    return {"cases": len(checked), "results": lanes}
