"""Where members lie once installed."""

from __future__ import annotations

import pytest

from qualify.audit.layout import SITE, installed_path, place_of


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ("small/a.py", f"{SITE}/small/a.py"),
        ("small-1.0.data/purelib/small/a.py", f"{SITE}/small/a.py"),
        ("small-1.0.data/platlib/a.so", f"{SITE}/a.so"),
        ("small-1.0.data/scripts/tool", "bin/tool"),
        ("small-1.0.data/data/bin/tool", "bin/tool"),
        ("small-1.0.data/data/lib/a.so", "lib/a.so"),
        ("small-1.0.data/data/lib/python3.11/site-packages/a.py", f"{SITE}/a.py"),
        ("small-1.0.data/headers/a.h", "include/site/python3/small/a.h"),
        ("small-1.0.data/none/a", "small-1.0.data/none/a"),
        ("small-1.0.data", f"{SITE}/small-1.0.data"),
    ],
)
def test_places(member: str, place: str) -> None:
    assert place_of(member, "small") == place


def test_below_the_folder_of_packages() -> None:
    assert installed_path("small-1.0.data/platlib/a.so") == "a.so"
    assert installed_path("small-1.0.data/scripts/a") == "small-1.0.data/scripts/a"
