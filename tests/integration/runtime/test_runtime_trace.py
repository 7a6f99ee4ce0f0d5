"""emu-trace on real programs: one timeline of both clocks, in order, with what happened between."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from device_programs import EMPTY, SLOW, WRITE
from device_stack import clean_environment, served

from qualify.process import Completed, run

pytestmark = pytest.mark.integration

TREE = Path(__file__).parents[3]
BUILT_IN = TREE / "driver_shim" / "spec" / "firmware-1.0.0.img"

# Copy, launch, firmware, launch on another stream that waits for the first.
PROGRAM = f"""
import array, sys
import emu_runtime as emu
from emu_driver_shim import driver
device, first, second, event = emu.Device(0), emu.Stream(0), emu.Stream(0), emu.Event(0)
address = device.alloc(4096)
module, slow, write = (emu.Module(0, text) for text in ({EMPTY!r}, {SLOW!r}, {WRITE!r}))
with emu.correlation(1):
    device.write(address, bytes(4096), first)
    module.launch((1, 1, 1), b"", first)
first.synchronize()
raw = driver.Device(0)
raw.write_firmware(open(sys.argv[1], "rb").read())
raw.close()
with emu.correlation(2):
    slow.launch((1, 1, 1), array.array("q", [address, 2000]).tobytes(), first)
event.record(first)
second.wait_event(event)
with emu.correlation(3):
    write.launch((1, 1, 1), array.array("q", [address, 7]).tobytes(), second)
"""
FAULT = f"""
import array
import emu_runtime as emu
with emu.correlation(9):
    emu.Module(0, {WRITE!r}).launch((1, 1, 1), array.array("q", [1 << 36, 7]).tobytes())
emu.Device(0).synchronize()
"""


def trace(
    site: Path, folder: Path, text: str, *words: str | Path, devices: Path | None = None
) -> tuple[Completed, Any]:
    """emu-trace on a program of that text; the process and what it wrote."""
    (folder / "program.py").write_text(text)
    program = "import sys; from emu_runtime.trace import main; sys.exit(main())"
    environment = clean_environment(site, EMU_DEVICE_DIR=str(devices or folder / "nowhere"))
    argv = ["-o", "out.json", *words]
    done = run([sys.executable, "-c", program, *argv], env=environment, cwd=folder)
    written = folder / "out.json"
    return done, json.loads(written.read_text()) if written.exists() else None


def test_a_run_with_firmware_in_between_is_in_order(site: Path, tmp_path: Path) -> None:
    done, data = trace(site, tmp_path, PROGRAM, "program.py", BUILT_IN)
    assert done.ok, done.stderr
    assert data["otherData"]["dropped_records"] == 0
    events = [event for event in data["traceEvents"] if event["ph"] != "M"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in data["traceEvents"]
        if event["name"] == "thread_name"
    }
    for process in sorted({event["pid"] for event in events}):
        own = sorted((e for e in events if e["pid"] == process), key=lambda event: event["ts"])
        told = [
            (event["cat"], event["args"]["correlation"])
            for event in own
            if event["cat"] != "timestamp"
        ]
        assert told == [
            ("copy_to_device", 1),
            ("launch", 1),
            ("firmware", 0),
            ("launch", 2),
            ("wait", 0),
            ("launch", 3),
        ], own
        (firmware,) = (event for event in own if event["cat"] == "firmware")
        assert firmware["ph"] == "i" and "1.0.0" in firmware["name"]
        assert names[process, firmware["tid"]] == "firmware"
        launches = [event for event in own if event["cat"] == "launch"]
        assert len({event["tid"] for event in launches}) == 2  # a track a stream
        assert [event["name"] for event in launches] == ["empty", "slow", "write"]
        assert all(event["ph"] == "X" and event["dur"] > 0 for event in launches)
        for clock in ("ns", "ticks"):
            ends = [event["args"][f"end_{clock}"] for event in launches]
            starts = [event["args"][f"start_{clock}"] for event in launches]
            assert ends[0] <= firmware["args"][f"start_{clock}"] <= starts[1]
            assert ends[1] <= starts[2]
    groups = [e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"]
    assert groups == ["emu:0, host clock", "emu:0, device clock"]


def test_a_fault_is_on_the_timeline_and_the_status_is_the_programs(
    site: Path, tmp_path: Path
) -> None:
    done, data = trace(site, tmp_path, FAULT, "--json", "program.py")
    assert done.status == 1 and "PageFaultError" in done.stderr
    (fault,) = (record for record in data["records"] if record["kind"] == 7)
    assert fault["correlation"] == 9 and fault["program"] == "write" and fault["status"] == 7


def test_many_commands_are_all_there(site: Path, tmp_path: Path) -> None:
    text = (
        f"import emu_runtime as emu\nmodule = emu.Module(0, {EMPTY!r})\n"
        "for _ in range(20_000): module.launch((1, 1, 1), b'')\nraise SystemExit(3)\n"
    )
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.status == 3
    assert data["dropped"] == 0 and len(data["records"]) == 20_000
    assert [r["command"] for r in data["records"]] == sorted(r["command"] for r in data["records"])


def test_a_module_is_found_where_python_would(site: Path, tmp_path: Path) -> None:
    """The script lies in a folder of programs, which Python puts first on its path."""
    (tmp_path / "elsewhere").mkdir()
    script = tmp_path / "elsewhere" / "emu-trace"
    script.write_text("import sys\nfrom emu_runtime.trace import main\nsys.exit(main())\n")
    (tmp_path / "program.py").write_text("raise SystemExit(5)\n")
    environment = clean_environment(site, EMU_DEVICE_DIR=str(tmp_path / "nowhere"))
    words = [sys.executable, str(script), "-o", "out.json", "-m", "program"]
    done = run(words, env=environment, cwd=tmp_path)
    assert done.status == 5, done.stderr


def test_a_lost_device_does_not_keep_the_records_of_another(
    site: Path, socket_folder: Path, tmp_path: Path
) -> None:
    """Two emuds, one of which dies and is not reset; as many as are read at a time."""
    first, second = socket_folder / "a", socket_folder / "b"
    both = socket_folder / "both"
    for folder in (first, second, both):
        folder.mkdir()
    text = (
        "import os, signal, time\nimport emu_runtime as emu\n"
        "dying, living = emu.Device(0), emu.Device(1)\n"
        f"module = emu.Module(1, {EMPTY!r})\n"
        "dying.alloc(4096)\n"
        "os.kill(dying.properties().emud_pid, signal.SIGKILL)\ntime.sleep(0.3)\n"
        "for _ in range(1024): module.launch((1, 1, 1), b'')\nliving.synchronize()\n"
    )
    with served(site, first), served(site, second):
        (both / "emu0").symlink_to(first / "emu0")
        (both / "emu1").symlink_to(second / "emu0")
        done, data = trace(site, tmp_path, text, "--json", "program.py", devices=both)
    assert done.ok, done.stderr
    assert sum(record["kind"] == 1 and record["device"] == 1 for record in data["records"]) == 1024
    assert data["dropped"] == 0


@pytest.mark.parametrize(
    ("words", "said"), [((), "expected a program"), (("program.py",), "Is a directory")]
)
def test_a_wrong_command_line_is_status_2(
    site: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "folder").mkdir()
    done, _ = trace(site, tmp_path, "raise SystemExit(0)", "-o", "folder", *words)
    assert done.status == 2
    assert said in done.stderr
