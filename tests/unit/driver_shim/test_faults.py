"""emu-fault on a real emud, and the one list of faults against all that is made from it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qualify.process import Completed, run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TREE = Path(__file__).parents[3]
FAULTS = tomllib.loads((TREE / "driver_shim" / "spec" / "faults.toml").read_text())["fault"]

Tool = Callable[..., Completed]
MAIN = "import sys; from emu_driver_shim.faults import main; sys.exit(main())"
# Another user clears all faults between two calls of the program.
CLEARED_MEANWHILE = """
from emu_driver_shim.driver import Device
faults = Device.faults
def cleared(device):
    device.clear_faults(0)
    return faults(device)
Device.faults = cleared
"""


@pytest.fixture
def node(native: Path, socket_folder: Path) -> Iterator[Path]:
    """The folder of a device node."""
    folder = socket_folder
    emud = native / "emu_driver_shim" / "bin" / "emud"
    process = subprocess.Popen([str(emud), "--foreground", "--node", str(folder / "emu0")])
    try:
        end = time.monotonic() + 20
        while not (folder / "emu0").exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        yield folder
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.fixture
def fault(package: Path, node: Path) -> Tool:
    def start(*words: object, program: str = MAIN, **environment: str) -> Completed:
        env = {"PATH": os.defpath, "PYTHONPATH": str(package), "EMU_DEVICE_DIR": str(node)}
        argv = [sys.executable, "-c", program, *map(str, words)]
        return run(argv, env={**env, **environment}, timeout=60)

    return start


def listed(done: Completed) -> list[dict[str, Any]]:
    assert done.ok, done.stderr
    faults: list[dict[str, Any]] = json.loads(done.stdout)["faults"]
    return faults


def test_inject_list_and_clear(fault: Tool) -> None:
    (slow,) = listed(fault("inject", "slow", "--factor", 4, "--times", 0, "--json"))
    words = "inject page-fault --command fill --skip 2 --process 77 --queue 5"
    said = fault(*words.split())
    assert (
        "page-fault: each fill after 2 of process 77 of queue 5; has struck 0 of 1" in said.stdout
    )
    both = listed(fault("list", "--json"))
    assert both[0] == slow
    assert slow["kind"] == "slow" and slow["factor"] == 4 and slow["times"] == 0
    assert (both[1]["command"], both[1]["skip"], both[1]["queue"]) == ("fill", 2, 5)
    assert "4 times as long; has struck 0 of any number" in fault("list").stdout
    assert [one["number"] for one in listed(fault("clear", slow["number"], "--json"))] == [2]
    assert fault("clear").ok
    assert fault("list").stdout == "no faults are injected\n"


def test_a_fault_that_is_cleared_meanwhile_is_told_as_it_was(fault: Tool) -> None:
    words = ["inject", "page-fault", "--command", "fill", "--json"]
    (told,) = listed(fault(*words, program=CLEARED_MEANWHILE + MAIN))
    assert (told["number"], told["kind"], told["command"]) == (1, "page-fault", "fill")
    assert listed(fault("list", "--json")) == []


def test_refusals(fault: Tool) -> None:
    done = fault("inject", "slow", "--json")
    assert done.status == 1
    error = json.loads(done.stdout)["error"]
    assert error["status"] == "INVALID_ARGUMENT" and "expected 2 to 1000, got 0" in error["cause"]
    assert done.stderr.startswith("emu-fault: ")
    assert fault("clear", 9).status == 1
    private = fault("inject", "hang", EMU_DEVICE_DIR="/nonexistent")
    assert private.status == 1 and "EMU_DEVICE_DIR" in private.stderr
    for words in ["", "inject", "inject melt", "inject hang --times -1", "clear x"]:
        assert fault(*words.split()).status == 2, words


def test_one_list(package: Path) -> None:
    """spec/faults.toml, driver.h and emu-fault have the same faults, and statuses that exist."""
    header = (TREE / "driver_shim" / "include" / "emu" / "driver.h").read_text()
    in_header = re.findall(r"EMU_FAULT_([A-Z_]+) = (\d+)", header)
    ours = [(row["name"].upper().replace("-", "_"), str(row["number"])) for row in FAULTS]
    assert in_header == ours
    code = (
        "from emu_driver_shim.faults import FaultKind\n"
        "print([(kind.name, str(kind.value)) for kind in FaultKind])"
    )
    told = run([sys.executable, "-c", code], env={"PYTHONPATH": str(package)})
    assert told.ok and told.stdout.strip() == str(ours)
    for row in FAULTS:
        assert row["status"] == "" or f"EMU_ERROR_{row['status']} =" in header
        assert f"EMU_SCOPE_{row['scope'].upper()} =" in header


def test_the_page_has_the_list() -> None:
    page = (TREE / "docs" / "faults.md").read_text()
    rows = [
        f"| `{row['name']}` | {row['scope']} | {row['status'] and '`' + row['status'] + '`'} "
        f"| {row['happens']} | {row['told']} | {row['recovery']} |"
        for row in FAULTS
    ]
    table = "\n".join(rows)
    assert f"|---|---|---|---|---|---|\n{table}\n\n" in page, f"docs/faults.md: expected\n{table}"
