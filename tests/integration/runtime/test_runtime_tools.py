"""emu-smi and emu-diag as programs, on installs that work and installs that do not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from device_stack import clean_environment, served, wait_for

from qualify.process import Completed, run

pytestmark = pytest.mark.integration


@pytest.fixture
def broken(site: Path, tmp_path: Path) -> Path:
    """A copy of the install, to be broken."""
    prefix = tmp_path / "prefix"
    shutil.copytree(site.parents[2], prefix, ignore=shutil.ignore_patterns("wheels"))
    return prefix / site.relative_to(site.parents[2])


def tool(site: Path, name: str, *words: str, **environment: str) -> Completed:
    clean = clean_environment(site, **environment)
    program = f"import sys; from emu_runtime.{name} import main; sys.exit(main())"
    return run([sys.executable, "-c", program, *words], env=clean, cwd=site, timeout=120)


def diagnosis(site: Path, **environment: str) -> tuple[int, dict[str, Any]]:
    done = tool(site, "diag", "--json", **environment)
    return done.status, {step["name"]: step for step in json.loads(done.stdout)["steps"]}


@contextmanager
def started(
    site: Path, module: str, *words: str, stdout: Any = subprocess.PIPE, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    program = f"import sys; from {module} import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=clean_environment(site, **environment),
        stdout=stdout, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def test_console_scripts_are_installed_and_run(site: Path) -> None:
    for name in ("emu-smi", "emu-diag", "emu-trace"):
        done = run([site.parents[2] / "bin" / name, "--help"], env=clean_environment(site))
        assert done.ok and name in done.stdout, done.stderr


def test_smi_shows_the_device(site: Path) -> None:
    done = tool(site, "smi")
    assert done.ok, done.stderr
    assert "emu:0   Emulated accelerator A0" in done.stdout
    data = json.loads(tool(site, "smi", "--json").stdout)
    (device,) = data["devices"]
    assert device["properties"]["memory_bytes"] > 0
    assert device["telemetry"]["temperature_celsius"] > 0


def test_smi_watches_until_it_is_interrupted(site: Path) -> None:
    with started(site, "emu_runtime.smi", "--json", "--watch", "0.1") as smi:
        assert smi.stdout is not None
        for _ in range(3):
            assert json.loads(smi.stdout.readline())["devices"]
        smi.send_signal(signal.SIGINT)
        assert smi.wait(30) == 130


def test_an_emud_that_is_stopped_is_not_waited_for(site: Path, socket_folder: Path) -> None:
    """Of two device processes: the other one is read all the same."""
    folder = {"EMU_DEVICE_DIR": str(socket_folder), "EMU_PRIVATE": "0"}
    with (
        served(site, socket_folder) as emud,
        started(site, "emu_runtime.smi", "--json", "--watch", "0.1", **folder) as smi,
    ):
        assert smi.stdout is not None
        assert json.loads(smi.stdout.readline())["devices"][0]["error"] is None
        emud.send_signal(signal.SIGSTOP)
        try:
            while (device := json.loads(smi.stdout.readline())["devices"][0])["error"] is None:
                pass
            assert "did not answer within 5 s" in device["error"]["cause"]
            smi.send_signal(signal.SIGINT)
            assert smi.wait(30) == 130
            with started(site, "emu_driver_shim.firmware", "info", **folder) as fw:
                time.sleep(1)  # it has no bound, and asks
                fw.send_signal(signal.SIGINT)
                assert fw.wait(30) == -signal.SIGINT
        finally:
            emud.send_signal(signal.SIGCONT)


TOOLS = (
    ("emu_runtime.smi", "--prometheus"), ("emu_runtime.diag", "--json"),
    ("emu_driver_shim.firmware", "info"), ("emu_driver_shim.faults", "list"),
)  # fmt: skip


@pytest.mark.parametrize("words", TOOLS)
def test_output_that_nobody_takes_is_no_traceback(site: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full, started(site, *words, stdout=full) as tool_of:
        _, said = tool_of.communicate(timeout=60)
    assert tool_of.returncode == 1
    assert said.count("\n") == 1 and "No space left on device" in said
    nobody, pipe = os.pipe()
    os.close(nobody)
    with os.fdopen(pipe, "w") as closed, started(site, *words, stdout=closed) as tool_of:
        assert tool_of.stderr is not None
        assert tool_of.wait(60) in (141, -signal.SIGPIPE), tool_of.stderr.read()
        assert tool_of.stderr.read() == ""


def test_smi_says_why_there_is_no_device(site: Path) -> None:
    done = tool(site, "smi", EMU_PRIVATE="0", EMU_DEVICE_DIR=str(site / "nowhere"))
    assert done.status == 1
    assert "EMU_PRIVATE" in done.stderr


def test_diag_passes_on_a_good_install(site: Path) -> None:
    status, steps = diagnosis(site)
    assert status == 0, steps
    assert {step["outcome"] for step in steps.values()} == {"passed"}
    assert len(steps) == 20


def test_diag_imports_no_torch(site: Path) -> None:
    program = "import sys; import emu_runtime.diag; print('torch' in sys.modules)"
    done = run([sys.executable, "-c", program], env=clean_environment(site))
    assert done.stdout == "False\n"


def remove(path: Path) -> None:
    path.unlink() if path.is_file() else shutil.rmtree(path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def other_machine(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    path.write_bytes(data)


def other_interface(path: Path) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "minimum": [2, 0], "current": [2, 0]}))


BREAKS: dict[str, tuple[str, Callable[[Path], None], str, str]] = {
    "no driver": ("emu_driver_shim*", remove, "packages found", "emu-driver-shim"),
    "no library": ("emu_runtime/lib/libemurt.so", remove, "libraries load", "libemurt"),
    "half a library": ("emu_runtime/lib/libemurt.so", truncate, "libraries load", ""),
    "half a driver": ("emu_driver_shim/lib/libemudrv.so", truncate, "libraries load", "libemudrv"),
    "no emud": ("emu_driver_shim/bin/emud", remove, "device program", "emud"),
    "half an emud": ("emu_driver_shim/bin/emud", truncate, "device program", "cut short"),
    "driver of another machine": (
        "emu_driver_shim/lib/libemudrv.so", other_machine, "libraries load", "is for riscv64",
    ),
    "emud of another machine": (
        "emu_driver_shim/bin/emud", other_machine, "device program", "is for riscv64",
    ),
    "other version": (
        "emu_driver_shim/compatibility.json", other_interface, "interface versions", "2.0 to 2.0",
    ),
    "no interface file": ("emu_runtime/interface.json", remove, "interface versions", "json"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_diag_finds_the_first_thing_that_is_broken(broken: Path, name: str) -> None:
    pattern, breaking, step, said = BREAKS[name]
    paths = list(broken.glob(pattern))
    assert paths
    for path in paths:
        breaking(path)
    status, steps = diagnosis(broken)
    assert status == 1
    assert steps[step]["outcome"] == "failed", steps
    assert said in steps[step]["cause"]
    assert steps[step]["mend"]
    if step != "packages found":
        assert steps["files intact"]["outcome"] == "failed"
    assert steps["program"]["outcome"] == "not run"
    assert steps["program"]["cause"].startswith("needs ")


def test_diag_finds_a_changed_file_that_still_works(broken: Path) -> None:
    with (broken / "emu_runtime" / "smi.py").open("a") as file:
        file.write("\n# changed\n")
    status, steps = diagnosis(broken)
    assert status == 1
    assert steps["files intact"]["outcome"] == "failed"
    assert "smi.py" in steps["files intact"]["cause"]
    assert steps["program"]["outcome"] == "passed"


def test_diag_tells_a_node_that_nobody_listens_on(site: Path, socket_folder: Path) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(socket_folder / "emu0"))
    listener.close()
    status, steps = diagnosis(site, EMU_DEVICE_DIR=str(socket_folder))
    assert status == 1
    assert steps["device opens"]["outcome"] == "failed"
    assert "emu0" in steps["device opens"]["cause"]


def test_links_name_the_devices_that_this_process_sees(
    site: Path, socket_folder: Path, script: Callable[..., Completed]
) -> None:
    """Of four devices, all joined to each other, it has the nodes of the second and the last."""
    with served(site, socket_folder, "--devices", "4") as emud:
        wait_for(socket_folder / "emu3", emud)
        for hidden in ("emu0", "emu2"):
            (socket_folder / hidden).unlink()
        done = script(
            "from emu_runtime import reading, topology\n"
            "for link in topology.links(reading.read_all()): print(link.devices)",
            EMU_DEVICE_DIR=str(socket_folder),
        )
    assert done.ok, done.stderr
    seen = [None, 0, None, 1]
    assert done.stdout.splitlines() == [
        str((seen[a], seen[b])) for a, b in combinations(range(4), 2)
    ]
