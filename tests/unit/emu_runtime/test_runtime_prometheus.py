"""The exposition, as the reader of Prometheus's own client library takes it."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest
from emu_runtime import prometheus
from emu_runtime.device import Telemetry
from emu_runtime.errors import DeviceLostError, NoDeviceError
from emu_runtime.reading import Reading
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from readings import MODES, PROPERTIES, telemetry

WORKED = telemetry(
    power_mode=1, device_ticks=2 * 10**9, spent_matrix_ticks=10**9, spent_idle_ticks=10**9,
    bytes_to_device=4000, to_device_ticks=1000, copy_ticks=1000, throttle=1, ecc_corrected=3,
    queued_commands=4, queue_delay_ticks=8 * 10**9, queue_delay_ns=10**9, memory_pressure=2,
    queue_delay_most_ticks=5 * 10**9, temperature_celsius=61.25, memory_used_bytes=2**33 - 1,
)  # fmt: skip
GOOD = Reading(0, PROPERTIES, WORKED, None, MODES)
LOST = Reading(1, None, None, DeviceLostError("emud is gone"))

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> tuple[dict[str, Metric], Values]:
    families = list(text_string_to_metric_families(text))
    values: Values = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in values
            values[key] = sample.value
    assert len({family.name for family in families}) == len(families)
    return {family.name: family for family in families}, values


def value(values: Values, name: str, device: str = "0", **labels: str) -> float:
    return values[f"emu_device_{name}", tuple(sorted({"device": device, **labels}.items()))]


def test_it_is_read_as_it_is_meant() -> None:
    families, values = parsed(prometheus.exposition([GOOD, LOST]))
    assert value(values, "utilization_ratio", kind="matrix") == 0.5
    assert value(values, "time_seconds_total", kind="matrix") == 1.0
    assert value(values, "clock_seconds_total") == 2.0
    assert value(values, "copied_bytes_total", direction="to_device") == 4000
    assert value(values, "bandwidth_bytes_per_second", path="to_device") == 4e9
    assert value(values, "queue_delay_seconds_sum", clock="device") == 8.0
    assert value(values, "queue_delay_seconds_sum", clock="host") == 1.0
    assert value(values, "queue_delay_seconds_count", clock="host") == 4
    assert value(values, "queue_delay_longest_seconds", clock="device") == 5.0
    assert value(values, "temperature_celsius") == 61.25
    assert value(values, "memory_used_bytes") == 2**33 - 1
    assert value(values, "throttled", reason="thermal") == 1
    assert value(values, "memory_pressure", level="critical") == 1
    assert value(values, "memory_pressure", level="high") == 0
    assert value(values, "power_mode", mode="eco") == 1
    assert value(values, "power_mode", mode="boost") == 0
    assert value(values, "ecc_errors_total", kind="corrected") == 3
    assert value(values, "up") == 1 and value(values, "up", device="1") == 0
    (identity,) = families["emu_device_info"].samples
    assert identity.labels["firmware"] == "1.2.3" and identity.value == 1
    assert families["emu_device_queue_delay_seconds"].type == "summary"


def test_each_family_is_typed_explained_and_named_by_its_unit() -> None:
    text = prometheus.exposition([GOOD])
    families, _ = parsed(text)
    assert len(families) == text.count("# TYPE ") == text.count("# HELP ") > 0
    for name, family in families.items():
        assert family.documentation.endswith("."), name
        assert family.type in ("gauge", "counter", "summary"), name
        if family.type == "counter":  # the reader takes the ending off
            assert f"# TYPE {name}_total counter" in text
    assert "idle" not in {s.labels.get("kind") for s in families["emu_device_time_seconds"].samples}


def test_a_family_is_told_once_for_all_devices() -> None:
    text = prometheus.exposition([GOOD, replace(GOOD, index=2)])
    _, values = parsed(text)
    assert text.count("# TYPE emu_device_power_watts ") == 1
    assert value(values, "power_watts") == value(values, "power_watts", device="2")


def test_labels_are_quoted() -> None:
    odd = 'a "quoted"\\path\nand a line'
    told = replace(GOOD, properties=replace(PROPERTIES, node=odd))
    families, _ = parsed(prometheus.exposition([told]))
    assert families["emu_device_info"].samples[0].labels["node"] == odd


def test_what_has_not_happened_has_no_rate() -> None:
    families, _ = parsed(prometheus.exposition([replace(GOOD, telemetry=telemetry())]))
    assert families["emu_device_bandwidth_bytes_per_second"].samples == []
    assert families["emu_device_utilization_ratio"].samples == []


def test_the_page_names_each_figure_and_each_metric() -> None:
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    told = prometheus.exposition([GOOD])
    metrics = [line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")]
    names = [*metrics, *(field.name for field in fields(Telemetry))]
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.fixture
def readings() -> list[Reading]:
    return [GOOD]


@pytest.fixture
def url(readings: list[Reading]) -> Iterator[str]:
    def read() -> Sequence[Reading]:
        if not readings:
            raise NoDeviceError("no device node", mend="Start emud")
        return readings

    with prometheus.Server("127.0.0.1", 0, read) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def test_metrics_are_served_fresh(url: str, readings: list[Reading]) -> None:
    with OPENER.open(url, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.read().decode() == prometheus.exposition([GOOD])
    readings[0] = LOST
    with OPENER.open(url, timeout=10) as answer:
        _, values = parsed(answer.read().decode())
    assert value(values, "up", device="1") == 0


def test_no_device_is_503_with_the_reason(url: str, readings: list[Reading]) -> None:
    readings.clear()
    with pytest.raises(urllib.error.HTTPError) as caught:
        OPENER.open(url, timeout=10)
    assert caught.value.code == 503
    assert caught.value.read() == b"no device node. Start emud\n"


def test_other_paths_are_404(url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        OPENER.open(url.replace("metrics", "other"), timeout=10)
    assert caught.value.code == 404
