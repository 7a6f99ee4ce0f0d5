"""emu-diag on devices and hosts on which something is wrong: it names the part and the mend."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_stack import clean_environment, served

from qualify.process import run

pytestmark = pytest.mark.integration

DIAG = "import sys; from emu_runtime.diag import main; sys.exit(main())"
# A process that may not pass by permissions, whoever runs the test: PR_CAPBSET_DROP of
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, and a new program.
ORDINARY = (
    "import ctypes, os, sys\n"
    "for capability in (1, 2):\n"
    "    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"
    f"os.execv(sys.executable, [sys.executable, '-c', {DIAG!r}, *sys.argv[1:]])\n"
)
# Of memfds too, which pinned memory is.
SMALL_FILES = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2)\n{DIAG}"


def diagnose(
    site: Path, *words: str, text: str = DIAG, **environment: str
) -> dict[str, dict[str, Any]]:
    clean = clean_environment(site, **environment)
    done = run([sys.executable, "-c", text, "--json", *words], env=clean, cwd=site, timeout=120)
    report = json.loads(done.stdout)
    assert done.status == (0 if report["passed"] else 1), done.stderr
    return {step["name"]: step for step in report["steps"]}


def assert_blamed(steps: dict[str, dict[str, Any]], name: str, *said: str) -> None:
    """That step failed, first of those that ran, and says so with a mend."""
    failed = [step["name"] for step in steps.values() if step["outcome"] == "failed"]
    assert failed[:1] == [name], steps
    for text in said:
        assert text in steps[name]["cause"] + steps[name]["mend"], steps[name]
    assert steps[name]["mend"]


@pytest.mark.parametrize("name", ["memory", "pinned", "copies", "fences", "queues"])
def test_a_step_that_fails_gives_back_what_it_took(
    emu: Any, device: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    diagnosis = importlib.import_module("emu_runtime.diagnosis")
    modules = [importlib.import_module(f"emu_runtime.diag_{kind}") for kind in ("device", "memory")]

    def differ(*_: object) -> None:
        held.append(device.memory_stats().allocated_bytes)
        raise diagnosis.Finding("they differ")

    held: list[int] = []
    for module in modules:
        monkeypatch.setattr(module, "compare", differ)
    monkeypatch.setattr(modules[0]._Kernel, "check", differ)
    (step,) = (getattr(module, name) for module in modules if hasattr(module, name))
    with pytest.raises(diagnosis.Finding, match="they differ"):
        step(diagnosis.Plan())
    assert held[0] > 0
    assert device.memory_stats().allocated_bytes == 0


def test_level_2_passes_on_a_good_device(site: Path) -> None:
    steps = diagnose(site, "--level", "2")
    assert {step["outcome"] for step in steps.values()} == {"passed"}, steps
    assert steps["instructions"]["figures"]["cases"] >= 30
    assert steps["bandwidth"]["figures"]["GB/s to device"] > 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("device_mib", "words", "tested"), [(256, (), 256), (768, ("--memory", "100"), 100)]
)
def test_level_3_passes_on_a_small_device(
    site: Path, socket_folder: Path, device_mib: int, words: tuple[str, ...], tested: int
) -> None:
    with served(site, socket_folder, "--memory", str(device_mib << 20)):
        steps = diagnose(site, "--level", "3", *words, EMU_DEVICE_DIR=str(socket_folder))
    assert {step["outcome"] for step in steps.values()} == {"passed"}, steps
    assert steps["memory"]["figures"]["MiB"] == tested
    assert steps["pinned memory"]["figures"]["MiB"] <= tested


@pytest.mark.timeout(900)
def test_level_3_takes_the_memory_that_it_may(site: Path, socket_folder: Path) -> None:
    with served(site, socket_folder, "--memory", str(768 << 20)):
        steps = diagnose(site, "--level", "3", "--memory", "512", EMU_DEVICE_DIR=str(socket_folder))
    assert {step["outcome"] for step in steps.values()} == {"passed"}, steps
    assert steps["memory"]["figures"]["MiB"] == 512


@pytest.mark.parametrize(("interface", "number"), [("1001", "1.1"), ("2002", "2.2")])
def test_an_emud_of_another_interface(
    site: Path, socket_folder: Path, interface: str, number: str
) -> None:
    with served(site, socket_folder, "--interface", interface):
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "device opens", f"{number} of emud", "of this process", "emu-driver-shim")


def test_a_node_without_permission(site: Path, socket_folder: Path) -> None:
    with served(site, socket_folder):
        (socket_folder / "emu0").chmod(0)
        steps = diagnose(site, text=ORDINARY, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "device node", "emu0 (s---------", "usermod")
    assert steps["device opens"]["outcome"] == "not run"


@pytest.mark.parametrize("what", ["a folder", "a file that is no socket"])
def test_what_lies_where_a_node_should_be(site: Path, socket_folder: Path, what: str) -> None:
    """An engine makes a folder of a node that is handed to a container before emud made it."""
    place = socket_folder / "emu0"
    place.mkdir() if what == "a folder" else place.touch()
    steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "device node", f"emu0 is {what}", "start emud --node")
    assert steps["device opens"]["outcome"] == "not run"


def test_no_node_and_no_private_device(site: Path, socket_folder: Path) -> None:
    steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder), EMU_PRIVATE="0")
    assert_blamed(steps, "device opens", "no device node", "emud --node")


def test_an_emud_that_dies_meanwhile(site: Path, socket_folder: Path) -> None:
    with served(site, socket_folder) as emud:
        diag = subprocess.Popen(
            [sys.executable, "-c", DIAG, "--level", "2"],  # not over before the kill
            env=clean_environment(site, EMU_DEVICE_DIR=str(socket_folder)),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert diag.stdout is not None
        for line in diag.stdout:
            if "device opens" in line:
                break
        emud.kill()
        said, _ = diag.communicate(timeout=120)
    assert diag.returncode == 1
    assert "FAILED" in said and f"(emud, process {emud.pid}) is gone" in said
    assert "mend: " in said


def test_a_damaged_firmware_slot(site: Path, socket_folder: Path) -> None:
    state = socket_folder / "state"
    with served(site, socket_folder, "--state-dir", str(state)):
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
        assert steps["firmware"]["outcome"] == "passed"
    slot = state / "0" / "slot0.img"
    slot.write_bytes(slot.read_bytes()[:-1] + b"?")
    with served(site, socket_folder, "--state-dir", str(state)):
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "firmware", "slot 0 is invalid", "emu-fw install")


def test_a_throttled_device(site: Path, socket_folder: Path) -> None:
    with served(site, socket_folder, "--ambient", "120"):
        first = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
        assert first["copies"]["outcome"] == "passed"  # time has passed on the device
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "condition", "throttled (thermal)", "power mode")


def inject(site: Path, folder: Path, *words: str) -> None:
    program = "import sys; from emu_driver_shim.faults import main; sys.exit(main())"
    clean = clean_environment(site, EMU_DEVICE_DIR=str(folder))
    done = run([sys.executable, "-c", program, "inject", *words], env=clean, timeout=60)
    assert done.ok, done.stderr


@pytest.mark.parametrize(
    ("words", "name", "mend"),
    [
        (("slow", "--factor", "4", "--times", "0"), "fault", "emu-fault clear"),
        (("thermal-trip",), "trip", "emu-fw reset"),
    ],
)
def test_a_device_that_an_injected_fault_throttles(
    site: Path, socket_folder: Path, words: tuple[str, ...], name: str, mend: str
) -> None:
    with served(site, socket_folder):
        inject(site, socket_folder, *words)
        diagnose(site, EMU_DEVICE_DIR=str(socket_folder))  # meets it
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "condition", f"throttled ({name})", mend)
    assert "air" not in steps["condition"]["mend"]


BIT_ERROR = """
import emu_runtime as emu
from emu_driver_shim import driver, faults
from emu_runtime.errors import BitError
device = emu.Device(0)
address = device.alloc(4096)
driver.Device(0).inject(driver.CFault(
    kind=faults.FaultKind.BIT_UNCORRECTED, queue=driver.ANY_QUEUE, times=1, address=address
))
try:
    device.read(address, 4096)
except BitError:
    print("found")
"""


def test_memory_errors_that_a_reset_does_not_forget(site: Path, socket_folder: Path) -> None:
    reset = "import sys; from emu_driver_shim.firmware import main; sys.exit(main(['reset']))"
    clean = clean_environment(site, EMU_DEVICE_DIR=str(socket_folder))
    with served(site, socket_folder):
        for text in (BIT_ERROR, reset):
            done = run([sys.executable, "-c", text], env=clean, timeout=60)
            assert done.ok, done.stderr
        steps = diagnose(site, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "condition", "1 errors", "Replace the device if the count grows")


def test_memory_for_no_fewer_than_a_chunk(site: Path) -> None:
    for number in ("-5", "0", "x"):
        done = run(
            [sys.executable, "-c", DIAG, "--memory", number],
            env=clean_environment(site),
            timeout=60,
        )
        assert done.status == 2
        assert f"expected a number of MiB from 4, got {number}" in done.stderr


def test_little_pinned_memory(site: Path, socket_folder: Path) -> None:
    with served(site, socket_folder):
        steps = diagnose(site, text=SMALL_FILES, EMU_DEVICE_DIR=str(socket_folder))
    assert_blamed(steps, "pinned memory", "no pinned memory of", "fallocate: File too large")


def test_a_temporary_folder_that_is_read_only(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir(0o555)
    steps = diagnose(site, text=ORDINARY, TMPDIR=str(folder))
    assert_blamed(steps, "temporary folder", str(folder), "Permission denied", "TMPDIR")
    assert steps["device opens"]["outcome"] == "passed"
