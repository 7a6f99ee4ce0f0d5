"""The facts of a Python, and that its copy runs where the original's folder is not."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from qualify import process
from qualify.errors import HostError, InputError
from qualify.interpreter import find, transplant
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


def test_the_distributions_python_is_not_moved(tmp_path: Path) -> None:
    system = msgspec.structs.replace(find(), prefix=Path("/usr"))
    with pytest.raises(HostError, match=r"cannot be moved.*pyenv or uv"):
        transplant(Stages(tmp_path, keep_free=0), system)


@pytest.mark.skipif(not find().movable, reason="this session's Python is the distribution's")
def test_the_copy_runs_from_another_folder(tmp_path: Path) -> None:
    found = find()
    copy = transplant(Stages(tmp_path, keep_free=0), found).path
    moved = tmp_path / "elsewhere"
    copy.rename(moved)
    program = "import sys, ssl, ctypes; print(sys.prefix); print(open('/proc/self/maps').read())"
    done = process.run([moved / "bin/python3", "-I", "-c", program], env={}, timeout=60)
    assert done.ok, done.stderr
    assert done.stdout.splitlines()[0] == str(moved)
    assert str(found.prefix) not in done.stdout, "a library of the original is mapped"
