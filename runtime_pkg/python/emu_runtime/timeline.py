"""Activity records as a timeline in the Chrome trace event format, which Perfetto reads.

Each device has two groups of tracks, a track a stream: on the host's CLOCK_MONOTONIC, and on the
device's clock, shifted so that both start together. Faults and firmware are instants on both. Every
event carries the numbers of both clocks as they were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from emu_runtime.activity import Activity, ActivityKind

NO_STREAM = 2**64 - 1  # of a record that is not of a queue
_FIRMWARE_TRACK = 10_000
_INSTANTS = (ActivityKind.FAULT, ActivityKind.FIRMWARE)

Event = dict[str, object]


def chrome(
    records: Sequence[Activity], hertz: Mapping[int, int], dropped: int
) -> dict[str, object]:
    """The trace as one object; `hertz` is the clock of each device that has records.

    `dropped` records are missing: a gap may stand for them.
    """
    events: list[Event] = []
    for device in sorted({record.device for record in records}):
        own = [record for record in records if record.device == device]
        events += _device(device, own, hertz[device])
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "dropped_records": dropped,
            "clock_hertz": {str(k): v for k, v in hertz.items()},
        },
    }


def _device(device: int, records: Sequence[Activity], hertz: int) -> list[Event]:
    first = min(records, key=lambda record: record.start_ns)
    shift = first.start_ns / 1000 - first.start_ticks * 1e6 / hertz
    host, clock = 2 * device + 1, 2 * device + 2  # viewers take process 0 for none
    tracks = sorted({_track(record) for record in records})
    events = [
        *_names(host, f"emu:{device}, host clock", tracks),
        *_names(clock, f"emu:{device}, device clock", tracks),
    ]
    for record in records:
        events.append(_event(record, host, record.start_ns / 1000, record.end_ns / 1000))
        start, end = (t * 1e6 / hertz + shift for t in (record.start_ticks, record.end_ticks))
        events.append(_event(record, clock, start, end))
    return events


def _names(process: int, name: str, tracks: Sequence[int]) -> list[Event]:
    def named(kind: str, track: int, text: str) -> Event:
        return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": text}}

    streams = [
        named("thread_name", track, "firmware" if track == _FIRMWARE_TRACK else f"stream {track}")
        for track in tracks
    ]
    return [named("process_name", 0, name), *streams]


def _track(record: Activity) -> int:
    return _FIRMWARE_TRACK if record.stream == NO_STREAM else record.stream


def _event(record: Activity, process: int, start: float, end: float) -> Event:
    """Times in microseconds."""
    name = record.program or record.kind.name.lower()
    if record.operator:
        name += f" ({record.operator})"
    args = {**asdict(record), "kind": record.kind.name.lower()}
    event: Event = {
        "name": name,
        "cat": record.kind.name.lower(),
        "pid": process,
        "tid": _track(record),
        "ts": start,
        "args": args,
    }
    if record.kind in _INSTANTS:
        return {**event, "ph": "i", "s": "p" if record.stream == NO_STREAM else "t"}
    return {**event, "ph": "X", "dur": end - start}
