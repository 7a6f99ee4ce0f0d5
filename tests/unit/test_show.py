"""The words for a person say what the values say."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from samples import CELL, World, check, events, jsonl, make_record, waiver

from qualify import evidence, index, pipeline, show
from qualify.errors import InputError
from qualify.stage import Output


def words(shown: show.Shown, records: Path | None = None) -> str:
    console = Console(file=io.StringIO(), width=250)
    console.print(show.render(shown, records))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_claim(tmp_path: Path) -> None:
    text = words(World(tmp_path).fill().decide(), Path("evidence/records"))
    assert "CLAIM experimental for emu-a0-py3.11 (emulated) in debian12, debian13" in text
    (line,) = [line for line in text.splitlines() if line.startswith("0 health") and "12" in line]
    (record,) = [word for word in line.split() if len(word) == 12]
    assert "records: evidence/records/<record>*.json" in text
    assert list((tmp_path / "records").glob(f"{record}*.json"))
    assert "not built" in text
    assert "7 release*" in text
    assert max(map(len, text.splitlines()[:12])) <= 80


def test_a_rare_outcome_gets_a_column_where_it_is_seen(tmp_path: Path) -> None:
    assert "skipped" not in words(World(tmp_path / "a").fill().decide())
    lines = events(check("gate0.a.one"), check("gate0.firmware.two", "skipped"), end=1)
    assert "skipped" in words(World(tmp_path / "b").fill(gate0=lines).decide()).splitlines()[0]


def test_a_refusal_names_check_layer_owner_and_mend(tmp_path: Path) -> None:
    lines = events(check("gate0.a.one"), check("gate0.firmware.two", "failed"), end=1)
    text = words(World(tmp_path).fill(gate0=lines).decide())
    assert "REFUSED experimental" in text
    expected = "refused gate0.firmware.two [firmware, firmware team] in debian12, debian13"
    assert text.count(expected) == 1
    assert "failed: why" in text
    mend = "qualify shell --python 3.11 --room docker --in debian12 -- python -m"
    assert f"{mend} pytest gate0.firmware.two" in text


def test_markup_in_a_message_is_text(tmp_path: Path) -> None:
    made = check("gate0.a.two", "failed", cases=("[bold]",))
    text = words(World(tmp_path).fill(gate0=events(check("gate0.a.one"), made, end=1)).decide())
    assert "failed [[bold]]: why" in text


def test_a_record(tmp_path: Path) -> None:
    lines = events(check("gate0.a.one"), check("gate0.a.two", "failed"), end=1)
    made = make_record(jsonl(lines))
    name = evidence.write(tmp_path, made)
    path = tmp_path / "records" / f"{name}.json"
    assert show.read(path) == made
    text = words(made)
    for expected in ("debian12: docker, debian 12", "gate0.a.two", "failed", "native", "why"):
        assert expected in text
    assert "again:  python -m pytest gate0.a.two" in text


def test_an_index_and_its_problems(tmp_path: Path) -> None:
    World(tmp_path).fill()
    assert show.read(tmp_path) == show.read(tmp_path / index.LINES) == index.read(tmp_path)
    assert words(show.read(tmp_path)).count("debian13") == 3
    (tmp_path / index.HEAD).unlink()
    assert "the index has no head" in words(show.read(tmp_path))


def test_a_verdict_file(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    world.waivers = [waiver("gate0.a.one")]
    path = pipeline.write_verdict(tmp_path, world.decide())
    assert show.read(path) == world.decide()
    assert CELL.id in words(show.read(path))


def test_what_no_digest_vouches_for_is_told(tmp_path: Path) -> None:
    path = pipeline.write_verdict(tmp_path, World(tmp_path).fill().decide())
    assert show.doubt(path, show.read(path)) == ""
    copy = path.with_name("copy.json")
    copy.write_bytes(path.read_bytes().replace(b'"emulated"', b'"hardware"'))
    assert "unverified: the name of copy.json" in show.doubt(copy, show.read(copy))


def test_what_is_no_file_or_has_no_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file"):
        show.read(Path("/dev/zero"))
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(show.LARGEST_BYTES + 1)
    with pytest.raises(InputError, match="too large"):
        show.read(tmp_path / "large.json")


@pytest.mark.parametrize("text", [None, "", "{}", "no json", "[]", '{"x":' + "[" * 100_000])
def test_what_is_none_of_them(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "file.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match="cannot"):
        show.read(path)


def test_timings() -> None:
    outputs = [
        Output(name="wheelhouse", key="k", path=Path(), seconds=12.34, reused=False),
        Output(name="gate 0", key="k", path=Path(), seconds=0.01, reused=True),
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(show.timings(outputs))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "12.3" in text
    assert text.count("unchanged") == 1
