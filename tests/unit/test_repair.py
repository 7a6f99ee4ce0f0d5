"""The repair changes the tag and nothing else, and says what it could not do."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from qualify.backend import Toolchain
from qualify.errors import BuildError
from qualify.repair import contents, repair

HERE = Toolchain(text="this machine", python="3.11")
C = "double cube(double x) { return x * x * x; }\n"
METADATA = "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"


def small_wheel(folder: Path, source: str, *flags: str) -> Path:
    """A wheel that holds one library made from `source`."""
    (folder / "small.c").write_text(source)
    library = folder / "libsmall.so"
    words = ["cc", "-shared", "-fPIC", "-o", str(library), str(folder / "small.c"), *flags]
    subprocess.run(words, check=True)
    wheel = folder / "small-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(library, "small/lib/libsmall.so")
        archive.writestr("small-1.0.dist-info/METADATA", METADATA)
        archive.writestr("small-1.0.dist-info/WHEEL", WHEEL)
        names = ["small/lib/libsmall.so", "small-1.0.dist-info/METADATA"]
        names += ["small-1.0.dist-info/WHEEL", "small-1.0.dist-info/RECORD"]
        archive.writestr("small-1.0.dist-info/RECORD", "".join(f"{n},,\n" for n in names))
    return wheel


def test_a_library_that_needs_little_gets_an_old_tag(tmp_path: Path) -> None:
    wheel = small_wheel(tmp_path, C)
    (tmp_path / "out").mkdir()
    fixed = repair(wheel, tmp_path / "out", HERE)
    assert "manylinux_2_5_x86_64" in fixed.name and "linux_x86_64.whl" not in fixed.name[:30]
    assert contents(fixed)["small/lib/libsmall.so"] == contents(wheel)["small/lib/libsmall.so"]


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    wheel = small_wheel(tmp_path, C)
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(repair(wheel, tmp_path / name, HERE).read_bytes())
    assert made[0] == made[1]


def test_a_library_of_this_machine_is_not_grafted(tmp_path: Path) -> None:
    other = tmp_path / "other.c"
    other.write_text("int other(void) { return 1; }\n")
    owned = tmp_path / "libowned.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(owned), str(other)], check=True)
    source = "int other(void); int small(void) { return other(); }\n"
    wheel = small_wheel(tmp_path, source, str(owned), f"-Wl,-rpath,{tmp_path}")
    (tmp_path / "out").mkdir()
    with pytest.raises(BuildError, match=r"changed its contents.*libsmall.so.*Link what was"):
        repair(wheel, tmp_path / "out", HERE)


def test_what_is_no_wheel_is_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "small-1.0-py3-none-linux_x86_64.whl"
    wheel.write_bytes(b"no zip")
    (tmp_path / "out").mkdir()
    with pytest.raises(BuildError, match="auditwheel could not repair"):
        repair(wheel, tmp_path / "out", HERE)
    with pytest.raises(BuildError, match="is not a wheel"):
        contents(wheel)
