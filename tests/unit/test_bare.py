"""The packages of a room, beside those that its image declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qualify.bare import VENV, compare

BASE = """\
installed\tapt\timportant\tno\t\tlibc6 (>= 2.36),\x20
installed\tlibc6\toptional\tno\tlibc\t,\x20
installed\tbash\trequired\tyes\t\tlibc6, base-files
installed\tbase-files\trequired\tyes\t\t,\x20
"""


HAS = "installed\t{}\toptional\tno\t{}\t{},"


@pytest.mark.parametrize(
    ("lines", "declared", "missing", "more"),
    [
        ([], [], [], []),
        ([HAS.format("python3", "", "libc6")], ["python3"], [], []),
        ([HAS.format("python3", "", "libc6")], [], [], ["python3"]),
        ([], ["python3"], ["python3"], []),
        (["config-files\tpython3\toptional\tno\t\ta,"], [], [], []),
        (["config-files\tpython3\toptional\tno\t\ta,"], ["python3"], ["python3"], []),
        (["unpacked\tx1\toptional\tno\t\ta,"], [], [], ["x1 (unpacked)"]),
        ([HAS.format("mawk", "awk", ""), HAS.format("x1", "", "awk | perl")], ["x1"], [], []),
        ([HAS.format("yy", "", ""), HAS.format("x1", "", "z1 | yy:any (>= 1)")], ["x1"], [], []),
        (
            [HAS.format("loop", "", "pool"), HAS.format("pool", "", "loop")],
            [],
            [],
            ["loop", "pool"],
        ),
    ],
)
def test_compare(
    lines: list[str], declared: list[str], missing: list[str], more: list[str]
) -> None:
    assert compare(BASE + "\n".join(lines), declared) == (missing, more)


def test_what_no_record_lists_in_an_environment_is_found(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-I", "-m", "venv", environment], check=True)
    site = next(environment.glob("lib/python3.*/site-packages"))

    def found() -> list[str]:
        words = [environment / "bin/python", "-I", "-S", "-c", VENV, environment]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    assert found() == []
    left = [environment / "bin/tool", site / "sitecustomize.py", site / "pip/more.py"]
    for path in left:
        path.touch()
    (site / "linked").symlink_to(tmp_path)
    assert sorted(found()) == sorted(map(str, [*left, site / "linked"]))
