"""The packages of a room, beside those that its image declares."""

from __future__ import annotations

import pytest

from qualify.bare import compare

BASE = """\
apt\timportant\tno\t\tlibc6 (>= 2.36),\x20
libc6\toptional\tno\tlibc\t,\x20
bash\trequired\tyes\t\tlibc6, base-files
base-files\trequired\tyes\t\t,\x20
"""


@pytest.mark.parametrize(
    ("line", "declared", "missing", "more"),
    [
        ("", [], [], []),
        ("python3\toptional\tno\t\tlibc6,", ["python3"], [], []),
        ("python3\toptional\tno\t\tlibc6,", [], [], ["python3"]),
        ("", ["python3"], ["python3"], []),
        ("mawk\toptional\tno\tawk\t\nx\toptional\tno\t\tawk | perl", ["x"], [], []),
        ("yy\toptional\tno\t\t\nx\toptional\tno\t\tzz | yy:any (>= 1)", ["x"], [], []),
        ("loop\toptional\tno\t\tpool\npool\toptional\tno\t\tloop", [], [], ["loop", "pool"]),
    ],
)
def test_compare(line: str, declared: list[str], missing: list[str], more: list[str]) -> None:
    assert compare(f"{BASE}{line}\n".strip(), declared) == (missing, more)
