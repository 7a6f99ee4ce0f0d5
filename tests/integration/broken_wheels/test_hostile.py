"""Whatever bytes a file has, the audit ends with findings: soon, in little memory, no traceback."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from broken_wheels.compiler import ADD, CALLS, calling, library, program, stub
from broken_wheels.defect import TREE, policy
from broken_wheels.good import Wheel, compiled, directory, entry, local, patch, pure
from qualify.audit import elf, load_code, relocations, report
from qualify.audit.finding import kinds
from qualify.errors import InputError

LIMITS = msgspec.structs.replace(policy().limits, ratio_above=1_000_000_000, text_bytes=64_000_000)
ROOMY = msgspec.structs.replace(policy(), limits=LIMITS)
SEEDS = range(6)
FLIPS = 120
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    wheel = compiled(library(ADD, "-Wl,-rpath,$ORIGIN"))
    return wheel.write(tmp_path_factory.mktemp("whole")).read_bytes()


def audited(place: Path, data: bytes) -> report.Report:
    path = place / compiled(b"").name
    path.write_bytes(data)
    done = report.audit(path, policy())
    assert {finding.id for finding in done.findings} <= set(kinds())
    return done


def test_cut_anywhere(whole: bytes, tmp_path: Path) -> None:
    for length in [
        *range(0, 200),
        *range(200, len(whole), 97),
        *range(len(whole) - 150, len(whole)),
    ]:
        assert audited(tmp_path, whole[:length]).findings, length


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_anywhere(whole: bytes, tmp_path: Path, seed: int) -> None:
    """The frame is small beside the data: half of the changes are in the directory."""
    chance = random.Random(seed)
    begin = directory(whole)
    for number in range(FLIPS):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(begin if number % 2 else 0, len(data))
            data[at] = chance.choice(INTERESTING)
        audited(tmp_path, bytes(data))


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_binaries(seed: int) -> None:
    """Facts, or Damaged; nothing else is raised, and no chain is followed for ever."""
    chance = random.Random(seed)
    good = [
        library(ADD, "-Wl,-rpath,$ORIGIN"),
        library(ADD, "-Wl,--hash-style=sysv"),
        calling(stub("libghost.so.1", "ghost", "GHOST_1.0"), "libghost.so.1"),
        program(),
    ]
    read = damaged = 0
    for number in range(FLIPS * 4):
        data = bytearray(good[number % len(good)])
        dynamic = elf.read(bytes(data)).dynamic
        for _ in range(chance.randint(1, 6)):
            places = (range(64), range(64, 700), range(dynamic, dynamic + 400), range(len(data)))
            data[chance.choice(chance.choice(places))] = chance.choice(INTERESTING)
        try:
            facts = elf.read(bytes(data))
            load_code.read(bytes(data), facts, relocations.read(bytes(data), facts))
            read += 1
        except elf.Damaged:
            damaged += 1
    assert read and damaged


def test_a_huge_stated_size_costs_nothing(whole: bytes, tmp_path: Path) -> None:
    """4 GB that are stated and not there, in both headers and in the extra field of 64 bits."""
    name = "small/data.txt"
    data = patch(whole, entry(whole, name) + 24, struct.pack("<L", 0xFFFFFFFE))
    data = patch(data, local(data, name) + 22, struct.pack("<L", 0xFFFFFFFE))
    found = audited(tmp_path, data).findings
    assert [finding.id for finding in found] == ["zip-bomb"]


BOUND = """
import resource, sys
from pathlib import Path
from broken_wheels.test_hostile import ROOMY
from qualify.audit import report
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
print(*sorted({finding.id for finding in report.audit(Path(sys.argv[1]), ROOMY).findings}))
"""


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_memory_does_not_grow_with_the_wheel(tmp_path: Path, method: int) -> None:
    """A member of 450 MB in 400 MB of address space, the interpreter included."""
    path = tmp_path / pure().name
    data = random.Random(4).randbytes(1 << 14) * 64
    with (
        zipfile.ZipFile(path, "w", method, compresslevel=1) as new,
        new.open("small/large.bin", "w", force_zip64=True) as file,
    ):
        for _ in range(430):
            file.write(data)
    assert found_in_little_memory(path) == ["dist-info-missing"]


def test_memory_does_not_grow_with_what_comes_out(tmp_path: Path) -> None:
    """A member that says 1,000 bytes and unpacks to 450 MB: it is left after the first chunk."""
    path = tmp_path / pure().name
    name = "small/large.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new, new.open(name, "w") as file:
        for _ in range(450):
            file.write(bytes(1 << 20))
    data = path.read_bytes()
    stated = struct.pack("<L", 1000)
    data = patch(patch(data, local(data, name) + 22, stated), entry(data, name) + 24, stated)
    path.write_bytes(data)
    assert found_in_little_memory(path) == ["dist-info-missing", "zip-size"]


def found_in_little_memory(path: Path) -> list[str]:
    words = [sys.executable, "-c", BOUND, str(path), str(400 << 20)]
    here = {"PYTHONPATH": f"{TREE}:{TREE / 'tests' / 'integration'}"}
    done = subprocess.run(words, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


HEADER, PROGRAM_HEADER, BODY = 64, 56, 2_000_000


def headed(*segments: tuple[int, int, int]) -> bytes:
    """The header of a shared object of x86-64, and those of segments: kind, offset and size."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    rest = (3, 62, 1, 0, HEADER, 0, 0, HEADER, PROGRAM_HEADER, len(segments), 0, 0, 0)
    rows = [struct.pack("<IIQQQQQQ", k, 6, o, o, 0, s, s, 8) for k, o, s in segments]
    return ident + struct.pack("<HHIQQQIHHHHHH", *rest) + b"".join(rows)


def over_all(kind: int, count: int, body: bytes) -> bytes:
    """Each of `count` segments is the whole of what follows the headers."""
    at = HEADER + PROGRAM_HEADER * count
    return headed(*[(kind, at, len(body))] * count) + body


def sharing_one_name(symbols: int) -> bytes:
    """A table of symbols, each of which has another end of one name of 400 kB."""
    name = b"\0" + b"a" * 400_000 + b"\0"
    dynamic = HEADER + 3 * PROGRAM_HEADER
    strings = dynamic + 6 * 16
    table = strings + len(name)
    hashes = table + 24 * symbols
    head = headed((1, 0, hashes + 8), (2, dynamic, 96), (elf.STACK, 0, 0))
    entries = ((5, strings), (10, len(name)), (6, table), (4, hashes), (11, 24), (0, 0))
    rows = b"".join(struct.pack("<IBBHQQ", 1 + n, 0x12, 0, 1, 0, 0) for n in range(symbols))
    packed = b"".join(struct.pack("<qQ", *each) for each in entries)
    return head + packed + name + rows + struct.pack("<II", 1, symbols)


def sections_of_one_string(count: int, *, more_names: bytes = b"") -> bytes:
    """Each of `count` sections with debug information is what unpacks to 256 MiB."""
    packed = struct.pack("<IIQQ", 1, 0, 1 << 28, 1) + zlib.compress(bytes(1 << 28), 1)
    names = b"\0.debug_str\0.debug_info\0" + more_names
    at = HEADER + len(packed) + len(names)
    head = headed((elf.STACK, 0, 0))[:HEADER]
    head = head[:32] + struct.pack("<QQ", 0, at) + head[48:54]
    head += struct.pack("<HHHHH", 0, 0, HEADER, count + 2, count + 1)
    row = struct.Struct("<IIQQQQIIQQ").pack
    at_name = 25 if more_names else 1
    debug = row(at_name, 1, 0x800, 0, HEADER, len(packed), 0, 0, 1, 0) * count
    debug += row(12, 1, 0x800, 0, HEADER, len(packed), 0, 0, 1, 0)
    last = row(0, 3, 0, 0, HEADER + len(packed), len(names), 0, 0, 1, 0)
    return head + packed + names + debug + last


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(
            lambda: sections_of_one_string(60_000),
            ["debug-information"],
            id="sections",
        ),
        pytest.param(
            lambda: sections_of_one_string(60_000, more_names=b"a" * 4_000_000),
            ["debug-information"],
            id="section-names",
        ),
        pytest.param(lambda: sharing_one_name(40_000), ["elf-damaged"], id="names"),
        pytest.param(
            lambda: over_all(elf.INTERP, 1000, b"a" * BODY), ["elf-damaged"], id="interpreters"
        ),
        pytest.param(lambda: over_all(elf.NOTE, 1000, bytes(BODY)), [], id="notes"),
        pytest.param(
            lambda: over_all(elf.DYNAMIC, 500, b"\1" * BODY), ["elf-damaged"], id="dynamic"
        ),
        pytest.param(
            lambda: over_all(elf.LOAD, 60_000, bytes(BODY)), ["elf-damaged"], id="headers"
        ),
    ],
)
def test_a_binary_that_asks_for_much_gets_little(
    tmp_path: Path, make: Callable[[], bytes], expected: list[str]
) -> None:
    """Each took gigabytes, or hours."""
    assert found_in_little_memory(compiled(make()).write(tmp_path)) == expected


def deep(names: int) -> Wheel:
    wheel = pure()
    for number in range(names):
        wheel.entries[f"small/{number}/" + "a/" * 2000 + "b.py"] = b""
    return wheel


def many_folders() -> Wheel:
    wheel = pure()
    for number in range(8):
        wheel.entries[f"other{number}-1.dist-info/METADATA"] = b"a" * 60_000_000
    return wheel


def with_text(name: str, text: str) -> Wheel:
    wheel = pure()
    wheel.set(name, text)
    return wheel


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda: deep(300), set[str](), id="names"),
        pytest.param(many_folders, {"zip-bomb"}, id="dist-infos"),
        pytest.param(
            lambda: with_text("METADATA", "a:\n" * 10_000_000), {"metadata-field"}, id="fields"
        ),
        pytest.param(
            lambda: with_text("RECORD", "a,,\n" * 7_000_000), {"record-syntax"}, id="rows"
        ),
    ],
)
def test_texts_and_names_that_ask_for_much_get_little(
    tmp_path: Path, make: Callable[[], Wheel], expected: set[str]
) -> None:
    found = found_in_little_memory(make().write(tmp_path))
    assert expected <= set(found)


@pytest.mark.timeout(120)
def test_a_pipe_is_told(tmp_path: Path) -> None:
    path = tmp_path / pure().name
    os.mkfifo(path)
    words = [sys.executable, "-m", "qualify", "audit", str(path)]
    done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, timeout=100)
    assert done.returncode == InputError.exit_status and "expected a regular file" in done.stderr
    assert "got a pipe" in done.stderr


LONG = 400_000


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("METADATA", "Name: small\n" + " more\n" * LONG),
        ("METADATA", "Requires-Dist: a" + " (" * LONG),
        ("METADATA", "Requires-Python: " + ">=3," * LONG),
        ("WHEEL", "Tag: " + ".".join("abcdefgh" * 400) + "-" + ".".join("ab" * 400) + "-c"),
        ("entry_points.txt", "[a]\nb" + " " * LONG + "c\n"),
        ("entry_points.txt", "[a]\nb = c" + " " * LONG + "d\n"),
        ("RECORD", '"' + "a" * LONG),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_long_texts_take_no_time(tmp_path: Path, name: str, text: str) -> None:
    wheel = pure()
    wheel.set(name, text)
    findings = report.audit(wheel.write(tmp_path), ROOMY).findings
    assert findings
    assert all(len(finding.got) < 10_000 for finding in findings)


@pytest.mark.timeout(20)
def test_many_paths_take_no_time(tmp_path: Path) -> None:
    path = compiled(library() + b"/home/a" * 4_000_000).write(tmp_path)
    assert report.audit(path, ROOMY).findings == ()


@pytest.mark.timeout(60)
def test_many_libraries_take_no_time(tmp_path: Path) -> None:
    """Each of 1,000 extensions needs each of 20 libraries, and all of those have its symbol."""
    stubs = tuple((f"lib{n}.so", stub(f"lib{n}.so", "ghost")) for n in range(20))
    needing = calling(stubs[0][1], "lib0.so", "-Wl,-rpath,$ORIGIN")
    extension = library(CALLS, "-Wl,-rpath,$ORIGIN", with_=stubs)
    wheel = compiled(needing)
    wheel.entries |= {f"small/{name}": data for name, data in stubs}
    wheel.entries |= {f"small/{number}.so": extension for number in range(1000)}
    path = wheel.write(tmp_path)
    before = time.process_time()
    found = report.audit(path, ROOMY).findings
    assert time.process_time() - before < 15
    assert [finding.id for finding in found] == ["symbol-two-providers"] * 19


def test_an_escape_does_not_reach_the_terminal(tmp_path: Path) -> None:
    wheel = pure()
    wheel.entries["small/\x1b[31mred\u202e.txt"] = b"a file"
    path = wheel.write(tmp_path)
    words = [sys.executable, "-m", "qualify", "audit", str(path)]
    done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert "zip-name-control" in done.stdout
