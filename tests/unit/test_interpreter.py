"""The facts of a Python, and that its copy runs where the original's folder is not."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from qualify import process
from qualify.errors import HostError, InputError
from qualify.interpreter import find, marks, transplant
from qualify.stage import Stages


def test_a_virtual_environment_is_followed_to_its_base() -> None:
    found = find(Path(sys.executable))
    assert found.prefix == Path(sys.base_prefix)
    assert found.minor == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert found.version.startswith(found.minor + ".")


def test_what_is_no_python_is_told() -> None:
    with pytest.raises(InputError, match="does not run as a Python"):
        find(Path("/bin/false"))
    with pytest.raises(HostError, match="cannot start"):
        find(Path("/no/such/python"))


SYSTEM = Path("/usr/bin/python3")
"""The distribution's own Python, whose parts lie all over /usr."""


@pytest.mark.parametrize("executable", [Path(sys.executable), SYSTEM])
def test_the_copy_runs_from_another_folder(tmp_path: Path, executable: Path) -> None:
    made = transplant(Stages(tmp_path, keep_free=0), find(executable))
    moved = tmp_path / "elsewhere"
    made.path.rename(moved)
    program = "import sys, ssl, ctypes; print(sys.prefix); print(open('/proc/self/maps').read())"
    done = process.run([moved / "bin/python3", "-I", "-c", program], env={}, timeout=60)
    assert done.ok, done.stderr
    prefix, *maps = done.stdout.splitlines()
    assert prefix == str(moved)
    mapped = {Path(line.split()[-1]) for line in maps if ".so" in line}
    outside = {path.name for path in mapped if not path.is_relative_to(moved)}
    assert outside <= GLIBC, "a module or library of the original is mapped"
    environment = tmp_path / "environment"
    for words in (
        [moved / "bin/python3", "-I", "-m", "venv", environment],
        [environment / "bin/python", "-I", "-m", "pip", "--version"],
    ):
        done = process.run(words, env={}, timeout=120)
        assert done.ok, done.stderr or done.stdout


GLIBC = {
    *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libutil.so.1", "librt.so.1"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1"),
}


def test_a_python_without_its_modules_is_told_and_not_moved(tmp_path: Path) -> None:
    """As Debian's is without python3-venv: there is no ensurepip."""
    stages = Stages(tmp_path, keep_free=0)
    copy = transplant(stages, find()).path
    shutil.rmtree(copy / f"lib/python{find().minor}/ensurepip")
    lacking = find(copy / "bin/python3")
    with pytest.raises(HostError, match=r"cannot be moved.*No module named 'ensurepip'"):
        transplant(stages, lacking)
    of_system = msgspec.structs.replace(lacking, prefix=Path("/usr"))
    with pytest.raises(HostError, match=f"Install python{lacking.minor}-venv"):
        transplant(stages, of_system)


def test_a_changed_module_is_another_interpreter(tmp_path: Path) -> None:
    module, compiled = tmp_path / "json" / "decoder.py", tmp_path / "__pycache__" / "x.pyc"
    for path in (module, compiled):
        path.parent.mkdir()
        path.write_text("one")
    before = marks(tmp_path)
    compiled.write_text("another")
    assert marks(tmp_path) == before, "what is not copied is no part of it"
    module.write_text("two")
    assert marks(tmp_path) != before
