"""A program that a tool runs in its own process prints, and ends, as it does with python."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[3] / "runtime_pkg" / "python"
TOOL = """
import sys
from emu_runtime import program
module = sys.argv[1] == "-m"
words = sys.argv[2:] if module else sys.argv[1:]
program.run(words, None if module else program.source(words[0]), module=module)
"""
ENDS = {
    "falls off": "print(__name__, __file__, __spec__, __package__, __loader__.name)",
    "path": "import sys; print(sys.argv, sys.path)",
    "error": "def f():\n    raise ValueError('no')\nf()",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError(2) from e",
    "syntax": "x = = 1",
    "text": "raise SystemExit('gone')",
    "number": "import sys; sys.exit(300)",
    "interrupt": "raise KeyboardInterrupt",
    "hook": "import sys\nsys.excepthook = lambda a, b, tb: print(a, b, tb.tb_lineno)\n1 / 0",
    "no future": "def f(x: int): ...\nprint(f.__annotations__)",
    "later": (
        "import atexit, pickle, threading, time\nclass Own: pass\n"
        "def late(): print(pickle.loads(pickle.dumps(Own())).__class__)\n"
        "atexit.register(late)\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), late())).start()"
    ),
}


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    environment = {"PATH": os.defpath, "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def assert_as_python(folder: Path, *words: str) -> tuple[int, str, str]:
    done = run(folder, "-c", TOOL, *words)
    assert done == run(folder, *words)
    return done


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_a_file_ends_as_with_python(tmp_path: Path, text: str) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "own.py").write_text(text)
    (tmp_path / "link.py").symlink_to(tmp_path / "programs" / "own.py")
    assert_as_python(tmp_path, "programs/own.py", "-x", "--")
    assert_as_python(tmp_path, "link.py")


@pytest.mark.parametrize("text", [ENDS["path"], ENDS["error"], ENDS["later"]])
def test_a_folder_an_archive_and_a_module(tmp_path: Path, text: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(f"import beside\n{text}")
    (package / "beside.py").write_text("print('beside')")
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(package / "__main__.py", "__main__.py")
        archive.write(package / "beside.py", "beside.py")
    (tmp_path / "beside.py").write_text("print('above')")
    (tmp_path / "module.py").write_text(text)
    for words in (["package", "a"], ["archive"], ["-m", "package"], ["-m", "module", "-m"]):
        assert_as_python(tmp_path, *words)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    status, _, said = assert_as_python(tmp_path, "-m", "absent")
    assert status == 1 and "No module named absent" in said


def test_a_safe_path_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import sys; print(sys.path[:2])")
    tool = f"import sys; sys.path.append({str(PACKAGES)!r})\n{TOOL}"
    assert run(tmp_path, "-I", "-c", tool, "own.py") == run(tmp_path, "-I", "own.py")
