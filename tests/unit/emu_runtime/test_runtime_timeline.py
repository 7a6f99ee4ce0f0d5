"""Records to events of a trace: numbers by hand, no device."""

from __future__ import annotations

from typing import Any

import pytest
from emu_runtime import trace
from emu_runtime.activity import Activity, ActivityKind, Recording
from emu_runtime.device import Device, Properties
from emu_runtime.errors import DeviceLostError
from emu_runtime.timeline import NO_STREAM, chrome

HERTZ = 1_000_000_000


def record(kind: ActivityKind, stream: int, ticks: int, ns: int, **more: Any) -> Activity:
    values = {"status": 0, "command": 1, "correlation": 0, "bytes": 0, "grid": (1, 1, 1)}
    values |= {"device": 0, "program": "", "end_ticks": ticks + 500, "end_ns": ns + 4000, **more}
    return Activity(kind=kind, stream=stream, start_ticks=ticks, start_ns=ns, **values)


RECORDS = [
    record(ActivityKind.LAUNCH, 0, 1000, 9_000_000, program="add", correlation=5),
    record(ActivityKind.FIRMWARE, NO_STREAM, 2000, 9_010_000, program="written"),
    record(ActivityKind.FILL, 3, 3000, 9_020_000, bytes=64, operator="aten::zero_"),
    record(ActivityKind.FAULT, 3, 4000, 9_030_000, device=1, status=7),
]


def events(process: int) -> list[dict[str, Any]]:
    trace: Any = chrome(RECORDS, {0: HERTZ, 1: HERTZ // 2}, 0)["traceEvents"]
    return [event for event in trace if event["pid"] == process and event["ph"] != "M"]


def test_both_clocks_start_together() -> None:
    host, device = events(1), events(2)
    assert [(e["ts"], e.get("dur")) for e in host] == [(9000, 4), (9010, None), (9020, 4)]
    assert [(e["ts"], e.get("dur")) for e in device] == [(9000, 0.5), (9001, None), (9002, 0.5)]
    assert [e["args"]["start_ticks"] for e in host] == [1000, 2000, 3000]


def test_names_tracks_and_instants() -> None:
    launch, firmware, fill = events(1)
    assert (launch["name"], launch["cat"], launch["ph"], launch["tid"]) == ("add", "launch", "X", 0)
    assert (fill["name"], fill["tid"]) == ("fill (aten::zero_)", 3)
    assert (firmware["name"], firmware["ph"], firmware["s"]) == ("written", "i", "p")
    (fault,) = events(3)
    assert (fault["name"], fault["ph"], fault["s"]) == ("fault", "i", "t")
    trace: Any = chrome(RECORDS, {0: HERTZ, 1: HERTZ // 2}, 2)
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M" and e["pid"] == 1]
    assert names == ["emu:0, host clock", "stream 0", "stream 3", "firmware"]
    assert trace["otherData"] == {
        "dropped_records": 2,
        "clock_hertz": {"0": HERTZ, "1": HERTZ // 2},
    }


def test_no_records_are_an_empty_trace() -> None:
    assert chrome([], {}, 0)["traceEvents"] == []


def test_records_of_a_device_that_is_lost_before_its_clock_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(_: Device) -> Properties:
        raise DeviceLostError("emud is gone")

    monkeypatch.setattr(Device, "properties", lost)
    monkeypatch.setattr(Recording, "read", lambda _: (RECORDS, 2))
    recorder = trace.Recorder()
    recorder.hertz[0] = HERTZ
    recorder._read()
    assert [record.device for record in recorder.records] == [0, 0, 0]
    assert recorder.dropped == 3
    assert chrome(recorder.records, recorder.hertz, recorder.dropped)["traceEvents"]
