"""Which devices are joined by which links, and what the links carried."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from emu_runtime import interface
from emu_runtime.device import Device
from emu_runtime.errors import InvalidArgumentError
from emu_runtime.library import call
from emu_runtime.reading import Reading


@dataclass(frozen=True)
class Way:
    """Of a link, from one of its devices to the other, since emud started."""

    copies: int
    bytes: int
    busy_ticks: int


@dataclass(frozen=True)
class Link:
    """`devices` are indices of this process; None for one that it does not see."""

    index: int  # in its device process
    emud_pid: int
    devices: tuple[int | None, int | None]
    is_up: bool
    bytes_per_tick: int  # each way
    latency_ticks: int
    errors: int  # copies that found it down
    ways: tuple[Way, Way]  # from the first device to the second, and back


def links(readings: Sequence[Reading]) -> list[Link]:
    """All links of all device processes, each once. Raises EmuError."""
    return [
        link for (pid, _), devices in members(readings).items() for link in _links_of(pid, devices)
    ]


def members(readings: Sequence[Reading]) -> dict[tuple[int, int], dict[int, int]]:
    """The indices of this process by those at the device process, of each `Reading.emud`."""
    found: dict[tuple[int, int], dict[int, int]] = {}
    for reading in readings:
        if reading.properties and reading.emud:
            found.setdefault(reading.emud, {})[reading.properties.emud_index] = reading.index
    return found


def _links_of(pid: int, devices: Mapping[int, int]) -> list[Link]:
    """Of the device process `pid`; `devices` are as in `members`."""
    any_device = Device(next(iter(devices.values())))
    found: list[Link] = []
    while True:
        raw = interface.CLinkInfo(size=ctypes.sizeof(interface.CLinkInfo))
        try:
            call("link_info", any_device.index, len(found), ctypes.byref(raw))
        except InvalidArgumentError:  # past the last one
            return found
        there, back = (Way(raw.copies[i], raw.bytes[i], raw.busy_ticks[i]) for i in (0, 1))
        low, high = (devices.get(n) for n in raw.device)
        found.append(
            Link(
                raw.index, pid, (low, high), bool(raw.is_up), raw.bytes_per_tick,
                raw.latency_ticks, raw.errors, (there, back),
            )
        )  # fmt: skip


def as_data(found: Sequence[Link]) -> dict[str, object]:
    return {"links": [asdict(link) for link in found]}


def _name(device: int | None) -> str:
    return "?" if device is None else f"emu:{device}"


def table(readings: Sequence[Reading], found: Sequence[Link]) -> str:
    """Who is joined to whom, with the bytes of a tick, and a line a link."""
    by_pair = {frozenset(link.devices): link for link in found}
    names = [_name(reading.index) for reading in readings]
    width = max(map(len, names))
    lines = [" ".join(cell.rjust(width) for cell in ["", *names]).rstrip()]
    for one in readings:
        cells = []
        for other in readings:
            link = by_pair.get(frozenset((one.index, other.index)))
            cell = "." if link is None else str(link.bytes_per_tick) if link.is_up else "down"
            cells.append("-" if one is other else cell)
        lines.append(" ".join(cell.rjust(width) for cell in [_name(one.index), *cells]))
    lines.append("bytes a tick, each way; . is no link")
    for link in found:
        low, high = map(_name, link.devices)
        ways = zip((f"{low} > {high}", f"{high} > {low}"), link.ways, strict=True)
        carried = "; ".join(
            f"{name} {way.bytes:,} bytes in {way.copies} copies, {way.busy_ticks:,} ticks"
            for name, way in ways
        )
        state = "up" if link.is_up else "DOWN"
        lines.append(
            f"link {link.index} of emud {link.emud_pid}: {state}, {link.latency_ticks} ticks of "
            f"latency, {link.errors} errors; {carried}"
        )
    return "\n".join(lines)
