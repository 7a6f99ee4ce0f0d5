"""Readings as Prometheus metrics: the text exposition format 0.0.4, and /metrics over HTTP.

Every metric has the label `device`. Seconds are of the device clock unless the name or a label says
`host`. docs/telemetry.md has the table.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from emu_runtime import figures
from emu_runtime.device import MemoryPressure, Properties, Telemetry, Throttle
from emu_runtime.errors import EmuError
from emu_runtime.reading import Reading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATIENCE_SECONDS = 10


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float | None  # None: nothing to tell, as a rate of what has not happened
    suffix: str = ""


class Family(NamedTuple):
    name: str
    kind: str
    help: str
    samples: list[Sample]


def exposition(readings: Sequence[Reading]) -> str:
    """All devices' families merged: each name once, with its HELP and TYPE."""
    merged: dict[str, Family] = {}
    for reading in readings:
        for family in _families(reading):
            into = merged.setdefault(family.name, family._replace(samples=[]))
            for sample in family.samples:
                labels = {"device": str(reading.index), **sample.labels}
                into.samples.append(sample._replace(labels=labels))
    return "".join(line + "\n" for family in merged.values() for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value, suffix in family.samples:
        if value is None:
            continue
        inside = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
        yield f"{family.name}{suffix}{{{inside}}} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _families(reading: Reading) -> Iterator[Family]:
    yield _one("up", "gauge", "1 if the device answered.", int(reading.telemetry is not None))
    if reading.properties is None or reading.telemetry is None:
        return
    yield from _identity(reading.properties, reading.telemetry, [m.name for m in reading.modes])
    yield from _time(reading.properties, reading.telemetry)
    yield from _traffic(reading.properties, reading.telemetry)
    yield from _state(reading.properties, reading.telemetry)


def _one(name: str, kind: str, help_: str, value: float) -> Family:
    return Family(f"emu_device_{name}", kind, help_, [Sample({}, value)])


def _by(
    label: str, name: str, kind: str, help_: str, values: Iterable[tuple[str, float | None]]
) -> Family:
    samples = [Sample({label: key}, value) for key, value in values]
    return Family(f"emu_device_{name}", kind, help_, samples)


def _identity(device: Properties, now: Telemetry, modes: Sequence[str]) -> Iterator[Family]:
    names = ("name", "uuid", "stepping", "firmware", "driver", "node")
    labels = {name: str(getattr(device, name)) for name in names}
    told = "Identity of the device, as labels."
    yield Family("emu_device_info", "gauge", told, [Sample(labels, 1)])
    current = ((mode, int(index == now.power_mode)) for index, mode in enumerate(modes))
    yield _by("mode", "power_mode", "gauge", "1 for the power mode that is set.", current)


def _time(device: Properties, now: Telemetry) -> Iterator[Family]:
    def seconds(ticks: int) -> float:
        return ticks / device.clock_hertz

    yield _one("clock_seconds_total", "counter", "Device clock.", seconds(now.device_ticks))
    yield _by(
        "kind",
        "utilization_ratio",
        "gauge",
        "Share of the device clock that the compute engine spent on this, since emud started.",
        (figures.shares(now) or {}).items(),
    )
    yield _by(
        "kind",
        "time_seconds_total",
        "counter",
        "What the compute engine spent its time on; the rest of the device clock it was idle.",
        ((kind, seconds(getattr(now, f"spent_{kind}_ticks"))) for kind in figures.KINDS[:-1]),
    )
    told = "Time that the copy engine worked."
    yield _one("copy_engine_seconds_total", "counter", told, seconds(now.copy_engine_ticks))
    told = "Time that the compute engine worked at a throttled clock."
    yield _one("throttled_seconds_total", "counter", told, seconds(now.throttled_ticks))
    told = "From when a command was ready (device) or submitted (host) to its start."
    delays = (("device", seconds(now.queue_delay_ticks)), ("host", now.queue_delay_ns / 1e9))
    most = (
        ("device", seconds(now.queue_delay_most_ticks)),
        ("host", now.queue_delay_most_ns / 1e9),
    )
    summary = [
        sample
        for clock, total in delays
        for sample in (
            Sample({"clock": clock}, total, "_sum"),
            Sample({"clock": clock}, now.queued_commands, "_count"),
        )
    ]
    yield Family("emu_device_queue_delay_seconds", "summary", told, summary)
    told = "The longest of emu_device_queue_delay_seconds."
    yield _by("clock", "queue_delay_longest_seconds", "gauge", told, most)


def _traffic(device: Properties, now: Telemetry) -> Iterator[Family]:
    ways = figures.PATHS[:-1]
    yield _by(
        "direction",
        "copied_bytes_total",
        "counter",
        "Bytes of copies and fills.",
        ((way, getattr(now, f"bytes_{way}")) for way in ways),
    )
    yield _by(
        "direction",
        "copy_seconds_total",
        "counter",
        "Time that copies and fills took, on both engines.",
        ((way, getattr(now, f"{way}_ticks") / device.clock_hertz) for way in ways),
    )
    told = "Bytes that programs loaded and stored."
    yield _one("program_bytes_total", "counter", told, now.program_bytes)
    yield _by(
        "path",
        "bandwidth_bytes_per_second",
        "gauge",
        "Achieved while copies that way, or programs, ran, since emud started.",
        figures.bandwidths(now, device.clock_hertz).items(),
    )
    yield _one(
        "commands_total", "counter", "Commands that ended, with an error or without.", now.commands
    )
    yield _one("launches_total", "counter", "Programs launched.", now.launches)
    yield _one(
        "faults_total", "counter", "Commands that lost their queue, context or device.", now.faults
    )


def _state(device: Properties, now: Telemetry) -> Iterator[Family]:
    yield _one("memory_bytes", "gauge", "Device memory.", device.memory_bytes)
    yield _one("memory_used_bytes", "gauge", "Device memory held.", now.memory_used_bytes)
    told = "Most that was held at once since emud started."
    yield _one("memory_peak_bytes", "gauge", told, now.memory_peak_bytes)
    told = "Longest run of free device memory."
    yield _one("memory_largest_free_bytes", "gauge", told, now.memory_largest_free_bytes)
    told = "1 for how short device memory is."
    yield _by(
        "level",
        "memory_pressure",
        "gauge",
        told,
        ((level.name.lower(), int(now.memory_pressure == level)) for level in MemoryPressure),
    )
    yield _one("contexts", "gauge", "Contexts of all processes.", now.contexts)
    yield _one("queues", "gauge", "Queues of all processes.", now.queues)
    yield _one("clock_hertz", "gauge", "Clock of the cores now.", now.clock_hertz)
    told = "Changes of the cores' clock: of power mode, or throttling."
    yield _one("clock_changes_total", "counter", told, now.clock_changes)
    yield _by(
        "reason",
        "throttled",
        "gauge",
        "1 while the cores' clock is lowered for this reason.",
        ((r.name.lower(), int(now.throttle == r)) for r in Throttle if r is not Throttle.NONE),
    )
    yield _one("power_watts", "gauge", "Power now.", now.power_watts)
    yield _one("temperature_celsius", "gauge", "Temperature now.", now.temperature_celsius)
    errors = (("corrected", now.ecc_corrected), ("uncorrected", now.ecc_uncorrected))
    yield _by("kind", "ecc_errors_total", "counter", "Memory errors.", errors)


class Server(ThreadingHTTPServer):
    """Serves GET /metrics with a fresh reading each; 503 with the reason where there is none."""

    daemon_threads = True

    def __init__(self, host: str, port: int, read: Callable[[], Sequence[Reading]]) -> None:
        self.read = read
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news either."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if self.address_family == socket.AF_INET6 else host
        return f"http://{shown!s}:{port}/metrics"


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_SECONDS
    server: Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            return self._answer(404, "text/plain; charset=utf-8", "expected /metrics\n")
        try:
            text = exposition(self.server.read())
        except EmuError as error:
            return self._answer(503, "text/plain; charset=utf-8", f"{error}\n")
        self._answer(200, CONTENT_TYPE, text)

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Scrapes are no news; errors still are."""


def serve(host: str, port: int, read: Callable[[], Sequence[Reading]]) -> None:
    """Until interrupted. Raises OSError when the address cannot be had."""
    with Server(host, port, read) as server:
        print(f"emu-smi: serving {server.url}", file=sys.stderr, flush=True)
        server.serve_forever()
