"""What emu-smi --topology makes of links; the links themselves are a gate's check."""

from __future__ import annotations

import dataclasses
import json

import pytest
from emu_runtime import smi, topology
from emu_runtime.reading import Reading
from emu_runtime.topology import Link, Way
from readings import MODES, PROPERTIES, telemetry

READINGS = [
    Reading(index, dataclasses.replace(PROPERTIES, emud_pid=pid), telemetry(), None, MODES)
    for index, pid in enumerate((42, 42, 43))
]
LINKS = [
    Link(0, 42, (0, 1), True, 16, 500, 0, (Way(2, 2048, 1128), Way(0, 0, 0))),
    Link(1, 42, (1, None), False, 8, 800, 3, (Way(0, 0, 0), Way(0, 0, 0))),
]


def test_the_table_has_each_pair_and_each_link() -> None:
    head, *rows, note, first, second = topology.table(READINGS, LINKS).splitlines()
    assert head.split() == ["emu:0", "emu:1", "emu:2"]
    assert [row.split() for row in rows] == [
        ["emu:0", "-", "16", "."], ["emu:1", "16", "-", "."], ["emu:2", ".", ".", "-"],
    ]  # fmt: skip
    assert "bytes a tick" in note
    assert "link 0 of emud 42: up, 500 ticks of latency, 0 errors" in first
    assert "emu:0 > emu:1 2,048 bytes in 2 copies, 1,128 ticks; emu:1 > emu:0 0 bytes" in first
    assert "link 1 of emud 42: DOWN" in second and "3 errors" in second and "emu:1 > ?" in second


def test_devices_are_known_by_their_number_at_emud() -> None:
    """Of the four of one emud, this process sees two; another container's emud has its number."""
    devices = [(1, 100), (3, 100), (1, 200)]
    readings = [
        Reading(
            index,
            dataclasses.replace(PROPERTIES, emud_index=number),
            telemetry(emud_start_ns=start), None, MODES,
        )
        for index, (number, start) in enumerate(devices)
    ]  # fmt: skip
    assert topology.members(readings) == {(42, 100): {1: 0, 3: 1}, (42, 200): {1: 2}}


def test_a_pair_whose_link_is_down_says_so() -> None:
    down = dataclasses.replace(LINKS[0], is_up=False)
    assert topology.table(READINGS, [down]).splitlines()[1].split() == ["emu:0", "-", "down", "."]


def test_data_are_plain() -> None:
    data = json.loads(json.dumps(topology.as_data(LINKS)))
    assert data["links"][0]["ways"][0] == {"copies": 2, "bytes": 2048, "busy_ticks": 1128}
    assert data["links"][1]["devices"] == [1, None]


@pytest.mark.parametrize("other", [["--prometheus"], ["--watch", "1"], ["--serve", "9400"]])
def test_it_is_asked_for_alone(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        smi.main(["--topology", *other])
    assert ended.value.code == 2
    assert "--topology" in capsys.readouterr().err
