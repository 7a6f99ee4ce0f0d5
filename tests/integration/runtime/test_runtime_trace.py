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


def test_a_forked_child_writes_nothing(site: Path, tmp_path: Path) -> None:
    text = (
        f"import os, emu_runtime as emu\nmodule = emu.Module(0, {EMPTY!r})\n"
        "module.launch((1, 1, 1), b'')\nemu.Device(0).synchronize()\n"
        "if child := os.fork():\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    module.launch((1, 1, 1), b'')\n"
    )
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.ok, done.stderr
    assert len(data["records"]) == 2 and done.stderr.count("emu-trace:") == 1


def test_a_child_forked_before_the_device_is_used_records_for_itself(
    site: Path, tmp_path: Path
) -> None:
    text = (
        "import os, emu_runtime as emu\nchild = os.fork()\n"
        "with emu.record_activity() as records:\n"
        f"    emu.Module(0, {EMPTY!r}).launch((1, 1, 1), b'')\n"
        "assert len(records) == 1, records\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
    )
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.ok, done.stderr
    assert len(data["records"]) == 1


def test_threads_and_exit_handlers_are_of_the_program(site: Path, tmp_path: Path) -> None:
    text = (
        "import atexit, threading, time, emu_runtime as emu\n"
        f"module = emu.Module(0, {EMPTY!r})\n"
        "def launch(number):\n"
        "    with emu.correlation(number): module.launch((1, 1, 1), b'')\n"
        "atexit.register(launch, 3)\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), launch(2))).start()\n"
        "launch(1)\n"
    )
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.ok, done.stderr
    assert [record["correlation"] for record in data["records"]] == [1, 2, 3]


def test_each_recording_has_all_records_of_its_time(site: Path, tmp_path: Path) -> None:
    """Those of the program, within each other, and the trace's, which reads all the while."""
    text = (
        "import os, time, emu_runtime as emu\n"
        f"module = emu.Module(0, {EMPTY!r})\n"
        "def launch(number):\n"
        "    with emu.correlation(number): module.launch((1, 1, 1), b'')\n"
        "    time.sleep(0.2)\n"
        "launch(1)\n"
        "with emu.record_activity() as outer:\n"
        "    launch(2)\n"
        "    with emu.record_activity() as inner: launch(3)\n"
        "    launch(4)\n"
        "launch(5)\n"
        "assert [r.correlation for r in outer] == [2, 3, 4], outer\n"
        "assert [r.correlation for r in inner] == [3], inner\n"
    )
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.ok, done.stderr
    assert [record["correlation"] for record in data["records"]] == [1, 2, 3, 4, 5]


def test_operators_are_named_from_when_they_are_told(site: Path, tmp_path: Path) -> None:
    text = (
        "import emu_runtime as emu\nfrom emu_runtime.activity import name_operators\n"
        f"module, asked = emu.Module(0, {EMPTY!r}), []\n"
        "name_operators(asked.append, lambda number: 'seven' if number == 7 else '')\n"
        "for number in 7, 8:\n"
        "    with emu.correlation(number): module.launch((1, 1, 1), b'')\n"
        "with emu.record_activity(): pass\n"
        "assert asked == [True], asked\n"
    )
    done, data = trace(site, tmp_path, text, "program.py")
    assert done.ok, done.stderr
    launches = [e for e in data["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert [launch["name"] for launch in launches] == ["empty (seven)", "empty"]


def test_a_recording_that_is_over_asks_for_no_operators(script: Any) -> None:
    done = script(
        "import os, emu_runtime as emu\nfrom emu_runtime.activity import name_operators\n"
        "asked = []\nname_operators(asked.append, lambda number: '')\n"
        "with emu.record_activity():\n"
        "    with emu.record_activity(): pass\n"
        "    assert asked == [True], asked\n"
        "assert asked == [True, False], asked\n"
    )
    assert done.ok, done.stderr


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGTERM)", "os.execv('/bin/false', ['f'])"]
)
def test_an_end_without_exit_handlers_leaves_an_older_trace(
    site: Path, tmp_path: Path, end: str
) -> None:
    (tmp_path / "out.json").write_text('"older"')
    text = f"import os, signal, emu_runtime as emu\nemu.Device(0).alloc(64)\n{end}\n"
    done, data = trace(site, tmp_path, text, "program.py")
    assert done.status != 0 and data == "older"
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "program.py"}


def test_what_is_no_regular_file_stays_what_it_is(site: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out.json").symlink_to("real/trace.json")
    text = "import os\nos.chdir('/')\n"
    done, data = trace(site, tmp_path, text, "--json", "program.py")
    assert done.ok and data["records"] == [], done.stderr
    assert (tmp_path / "out.json").is_symlink()
    done, _ = trace(site, tmp_path, text, "--json", "-o", "/dev/stdout", "program.py")
    assert done.ok and json.loads(done.stdout) == data


def test_a_trace_that_cannot_be_written_at_the_end_is_status_2(site: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    text = "import os\nos.rmdir('gone')\n"
    done, _ = trace(site, tmp_path, text, "-o", "gone/trace.json", "program.py")
    assert done.status == 2 and "gone/trace.json: No such file" in done.stderr


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


def test_what_follows_two_dashes_is_the_program(site: Path, tmp_path: Path) -> None:
    text = "import sys\nraise SystemExit(sys.argv[1:] != ['--', '--json'])\n"
    done, data = trace(site, tmp_path, text, "--", "program.py", "--", "--json")
    assert done.ok and "traceEvents" in data, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected a program"),
        (("program.py",), "Is a directory"),
        (("absent.py",), "the program absent.py: No such file"),
    ],
)
def test_a_wrong_command_line_is_status_2(
    site: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "folder").mkdir()
    done, _ = trace(site, tmp_path, "raise SystemExit(0)", "-o", "folder", *words)
    assert done.status == 2
    assert said in done.stderr
