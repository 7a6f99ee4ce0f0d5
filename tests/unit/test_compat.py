"""What works together is data that can't contradict itself or the release that is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.compat import read_compat
from qualify.errors import InputError

COMPAT = Path(__file__).parents[2] / "matrix" / "compat.toml"


def test_the_file_of_this_checkout() -> None:
    compat = read_compat(COMPAT, "0.1.0")
    assert [neighbour.name for neighbour in compat.neighbours] == ["before", "after"]
    for meeting in compat.meetings:
        for number, row in enumerate((meeting.before, meeting.here, meeting.after)):
            assert row[number], f"{meeting.asks} does not work with its own release"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"0.0.9"', '"0.3.0"', "neighbours[0].version: expected an older version than 0.1.0"),
        ('"0.2.0"', '"0.1.0"', "neighbours[1].version: expected a newer version than 0.1.0"),
        ('"0.2.0"', '"two"', "neighbours[1].version: Invalid version: 'two'"),
        ('name = "before"', 'name = "after"', "neighbours[0].name: expected before, got after"),
        ('asks = "driver"', 'asks = "runtime"', "meetings[1].asks: expected each one once"),
        ("here = [false, true, true]", "here = [true]", "meetings[0].here: Expected `array`"),
        ('runtime_interface = "1.1"', 'runtime_interface = "1"', "neighbours[0].runtime_interf"),
        ('made = "moved"', 'made = "up"', "neighbours[0].made: Invalid enum value 'up'"),
    ],
)
def test_a_bad_file_is_named_to_the_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = COMPAT.read_text()
    assert old in text
    # Words in comments name the keys too.
    head, _, tables = text.partition("[[")
    (tmp_path / "compat.toml").write_text(head + "[[" + tables.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_compat(tmp_path / "compat.toml", "0.1.0")
    assert message in str(caught.value)
    assert "compat.toml:" in str(caught.value)
