"""What the operating system refuses is told like every other error: cause, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.errors import HostError, RoomError, host_errors


def test_a_full_disk(tmp_path: Path) -> None:
    with (
        pytest.raises(HostError, match=r"^x: .* No space left on device. Free some disk"),
        host_errors("x"),
    ):
        Path("/dev/full").write_text("more than nothing")


def test_what_was_removed_names_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(HostError, match=r"^x: .*/gone'. If it was there, .* run again"),
        host_errors("x"),
    ):
        (tmp_path / "gone").read_bytes()


def test_what_is_an_error_of_ours_already_stays_as_it_is() -> None:
    with pytest.raises(RoomError), host_errors("x"):
        raise RoomError("a room")
