"""What a record says about the walls of a room in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.container import Apart, isolation
from qualify.images import PLAIN, Setting


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (PLAIN, ["without network", "uid 1000 unless"]),
        (Setting(name="n", network=True), ["with the engine's own network"]),
        (Setting(name="u", user=4321), ["uid 4321, which has no name there, unless"]),
        (Setting(name="r", user=0), ["uid 0 unless"]),
        (Setting(name="o", read_only=True), ["its root read-only after the install"]),
    ],
)
def test_a_record_says_what_the_walls_are(setting: Setting, says: list[str]) -> None:
    words = "; ".join(isolation(setting))
    assert all(part in words for part in says)


def test_a_record_says_whose_devices_are_apart() -> None:
    devices = [
        Apart(driver=Path("a.whl"), sha256="1" * 64),
        Apart(driver=Path("b.whl"), sha256="2" * 64, release="before"),
    ]
    assert len(isolation(PLAIN)) == 3
    words = isolation(PLAIN, devices)[3]
    assert "a container of its own for the device of each release: here, before;" in words
