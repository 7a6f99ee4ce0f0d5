"""The plugin's tests run where a user would run it: in a clean room, with the wheels installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.pipeline import Prepared
from qualify.room import open_room

TESTS = Path(__file__).parent / "plugin"
FILES = sorted(path.name for path in TESTS.glob("test_*.py"))
RUN_SECONDS = 1500


@pytest.mark.integration
@pytest.mark.timeout(RUN_SECONDS + 1800)
@pytest.mark.parametrize("file", FILES)
def test_in_a_room(prepared: Prepared, file: str) -> None:
    with open_room(prepared.rooms[0]) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        done = room.run(
            [room.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
            timeout=RUN_SECONDS,
            cwd=room.put(TESTS),
            env={"PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert done.ok, done.stdout[-8000:] + done.stderr[-2000:]
    (*_, counts) = done.stdout.strip().splitlines()
    assert " passed" in counts and "skipped" not in counts, counts
