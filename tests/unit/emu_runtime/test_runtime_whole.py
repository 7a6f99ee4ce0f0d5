"""A library that was cut short, or is of another machine, is known by its own headers."""

from __future__ import annotations

import platform
import struct
import sys
from pathlib import Path

from emu_runtime.whole import defect, shortfall


def elf(*segments: tuple[int, int]) -> bytes:
    """An ELF header and loaded segments (offset, length), and no more."""
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64)
    header = header.ljust(54, b"\0") + struct.pack("<HH", 56, len(segments))
    table = b"".join(
        struct.pack("<IIQQQQQQ", 1, 0, offset, 0, 0, length, 0, 0) for offset, length in segments
    )
    return header.ljust(64, b"\0") + table


def test_length_is_that_of_the_furthest_segment(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(elf((0, 500), (400, 600)).ljust(1000, b"x"))
    assert shortfall(path) == 0
    path.write_bytes(path.read_bytes()[:990])
    assert shortfall(path) == 10


def test_cut_inside_its_table(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(elf((0, 100))[:70])
    assert shortfall(path) == 50


def test_no_library_is_left_to_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    for data in (b"", b"\x7fELF", b"text" * 100):
        path.write_bytes(data)
        assert shortfall(path) == 0


def test_another_machine_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(Path(sys.executable).resolve().read_bytes())
    assert defect(path) == ""
    data = bytearray(path.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    path.write_bytes(data)
    assert defect(path) == f"{path} is for riscv64, and this machine is {platform.machine()}"
    path.write_bytes(data[:5000])
    assert "is cut short" in defect(path)
