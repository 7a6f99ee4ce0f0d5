"""Debug information is seen in each way that compilers pack it, with the build's folder."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from qualify.audit.debug_information import DebugInformation, read

FOLDERS = ("/home",)
HOME = "/home/somebody/small"


def compiled(tmp_path: Path, *flags: str) -> bytes:
    """With so many names that packing them saves something, or else linkers leave it."""
    names = (f"a_name_of_some_length_{number}" for number in range(200))
    (tmp_path / "a.c").write_text("".join(f"int {name}(int a) {{ return a; }}\n" for name in names))
    words = ["gcc", "-shared", "-fPIC", f"-ffile-prefix-map={tmp_path}={HOME}", *flags]
    subprocess.run([*words, "-o", "a.so", "a.c"], cwd=tmp_path, check=True, timeout=60)
    return (tmp_path / "a.so").read_bytes()


@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
def test_the_folder_of_the_build(tmp_path: Path, dwarf: str) -> None:
    found = read(compiled(tmp_path, dwarf, "-gz=none"), FOLDERS)
    assert found is not None and found.folder == HOME and found.bytes > 100


def test_the_folder_in_what_is_packed(tmp_path: Path) -> None:
    data = compiled(tmp_path, "-gdwarf-4", "-gz=zlib")
    assert HOME.encode() not in data
    found = read(data, FOLDERS)
    assert found is not None and found.folder == HOME


def test_another_folder(tmp_path: Path) -> None:
    found = read(compiled(tmp_path, "-g"), ("/builds",))
    assert found is not None and found.folder == ""


def test_none_without(tmp_path: Path) -> None:
    assert read(compiled(tmp_path), FOLDERS) is None
    assert read(compiled(tmp_path, "-g", "-s"), FOLDERS) is None


@pytest.mark.parametrize("at", [40, 58, 60, 62])
@pytest.mark.parametrize("value", [0, 0xFF, 0xFFFF])
def test_damaged_headers_mean_none(tmp_path: Path, at: int, value: int) -> None:
    """Whatever they say, it ends, and nothing is raised."""
    data = bytearray(compiled(tmp_path, "-g", "-gz=zlib"))
    struct.pack_into("<H", data, at, value)
    assert isinstance(read(bytes(data), FOLDERS), DebugInformation | None)


def test_damaged_packing(tmp_path: Path) -> None:
    data = bytearray(compiled(tmp_path, "-gdwarf-4", "-gz=zlib"))
    start = data.find(b"\x78\x9c")
    while start >= 0:
        data[start : start + 2] = b"\0\0"
        start = data.find(b"\x78\x9c")
    found = read(bytes(data), FOLDERS)
    assert found is not None and found.folder == ""
