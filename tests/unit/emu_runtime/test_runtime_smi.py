"""What emu-smi makes of readings; the readings themselves are an integration test."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import os

import pytest
from emu_runtime import reading, smi
from emu_runtime.errors import DeviceLostError, NoDriverError
from emu_runtime.reading import Reading
from emu_runtime.smi import Screen
from readings import MODES, PROPERTIES, telemetry

WORKED = telemetry(
    power_mode=2, memory_used_bytes=3 * 2**20, device_ticks=200, power_watts=20.5, throttle=1,
    spent_matrix_ticks=50, spent_memory_ticks=25, spent_waiting_ticks=75, spent_idle_ticks=50,
    bytes_to_device=4000, to_device_ticks=1000, queued_commands=4, queue_delay_ticks=8000,
    queue_delay_most_ticks=5000, queue_delay_ns=100_000, queue_delay_most_ns=70_000,
)  # fmt: skip


def test_columns_are_aligned_and_complete() -> None:
    text = smi.table([Reading(0, PROPERTIES, WORKED, None, MODES)], {})
    head, rule, row, *notes = text.splitlines()
    assert set(rule) == {"-"}
    cells = {
        "mode": "boost", "memory": "3 MiB of 8,192 MiB", "busy": "38 %", "throttle": "thermal",
        "power": "20.5 W",
    }  # fmt: skip
    for column, cell in cells.items():
        assert row[head.index(column) :].startswith(cell)
    assert all(len(line) <= 120 for line in text.splitlines())
    identity, state, spent, rates, queued = notes
    assert "node /dev/emu/emu0, emud pid 42, firmware 1.2.3" in identity
    assert "memory pressure none" in state
    assert "|MMMMMMRRRwwwwwwwww......|" in spent
    assert "matrix 25, vector 0, memory 12, control 0, copy 0, waiting 38, idle 25 %" in spent
    assert rates == "emu:0: to device 4.0 GB/s, from device -, on device -, programs 0.0 GB/s"
    assert "queued 2.0 us in the mean, 5.0 us at most (on the host 25.0 and 70.0)" in queued


def test_only_readings_of_the_same_emud_are_compared() -> None:
    """A new one counts from its start: shares and rates of the difference would be negative."""
    other = dataclasses.replace(PROPERTIES, emud_pid=PROPERTIES.emud_pid + 1)
    last = [Reading(index, PROPERTIES, WORKED, None, MODES) for index in range(4)]
    lost = Reading(2, None, None, DeviceLostError("emud is gone"))
    again = telemetry(emud_start_ns=5)  # in a container, with the number of the one before
    now = [
        last[0], Reading(1, other, telemetry(), None, MODES), lost,
        Reading(3, PROPERTIES, again, None, MODES),
    ]  # fmt: skip
    assert smi.comparable(last, now) == {0: WORKED}
    assert smi.comparable(now, last) == {0: WORKED}


def test_a_device_that_did_nothing_has_no_shares() -> None:
    text = smi.table([Reading(0, PROPERTIES, telemetry(), None, MODES)], {})
    assert len(text.splitlines()) == 5
    assert "|" not in text


def test_a_bar_uses_all_its_cells() -> None:
    """Seven shares that each round up or down by themselves would not add up."""
    for parts in itertools.product((0.0, 0.02, 0.49, 1.0), repeat=7):
        if sum(parts) == 0:
            continue
        shares = {kind: part / sum(parts) for kind, part in zip(smi.LETTERS, parts, strict=True)}
        assert len(smi.bar(shares)) == smi.BAR_CELLS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_watch_draws_over_the_last_table(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(smi.shutil, "get_terminal_size", lambda: os.terminal_size((10, 4)))
    screen = Screen()
    screen.show("first\na line that is too long\n3\n4 does not fit")
    assert terminal.getvalue() == "first\na line tha\n3\n"
    screen.show("second")
    screen.show("third")
    assert terminal.getvalue().endswith("\n3\n\x1b[3F\x1b[Jsecond\n\x1b[1F\x1b[Jthird\n")


def test_watch_elsewhere_appends(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.show("first")
    screen.show("second")
    assert capsys.readouterr().out == "first\nsecond\n"


def test_data_have_words_and_figures() -> None:
    (device,) = reading.as_data([Reading(0, PROPERTIES, WORKED, None, MODES)])["devices"]  # type: ignore[misc]
    assert device["figures"]["power_mode"] == "boost"
    assert device["figures"]["throttle"] == "thermal"
    assert device["figures"]["shares"]["matrix"] == 0.25
    assert [mode["name"] for mode in device["power_modes"]] == ["nominal", "eco", "boost"]
    assert json.dumps(device)


def test_a_device_that_does_not_answer_is_told_with_its_reason() -> None:
    told = Reading(1, None, None, DeviceLostError("emud is gone", mend="Start it"))
    text = smi.table([told], {})
    assert "does not answer" in text
    assert "emu:1: emud is gone. Start it" in text
    assert reading.as_data([told])["devices"][0]["error"]["cause"] == "emud is gone"  # type: ignore[index]


def test_nothing_works_is_status_1_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> int:
        raise NoDriverError("the driver is missing", mend="Install it")

    monkeypatch.setattr(reading, "device_count", missing)
    assert smi.main([]) == 1
    assert capsys.readouterr().err == "emu-smi: the driver is missing. Install it\n"
    assert smi.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["status"] == 100


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan"])
def test_watch_needs_a_time(text: str) -> None:
    with pytest.raises(SystemExit) as caught:
        smi.main([f"--watch={text}"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9400", ("127.0.0.1", 9400)),
        (":9400", ("127.0.0.1", 9400)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:9400", ("::1", 9400)),
    ],
)
def test_serve_takes_a_place(text: str, place: tuple[str, int]) -> None:
    assert smi._place(text) == place


@pytest.mark.parametrize(
    "words",
    [
        ["--serve", "::1:9400"],
        ["--serve", "localhost"],
        ["--serve", "localhost:65536"],
        ["--serve", "9400", "--watch", "1"],
        ["--serve", "9400", "--json"],
        ["--json", "--prometheus"],
    ],
)
def test_what_does_not_go_together_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        smi.main(words)
    assert caught.value.code == 2


def test_an_address_that_cannot_be_had_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert smi.main(["--serve", "192.0.2.1:1"]) == 1  # of no host: RFC 5737
    assert "emu-smi: --serve: " in capsys.readouterr().err
