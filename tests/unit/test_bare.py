"""The packages of a room, beside those that its image declares."""

from __future__ import annotations

import pytest

from qualify.bare import compare

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
