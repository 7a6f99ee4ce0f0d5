"""The frame of emu-diag: what fails, what is not run, and what the exit status says."""

from __future__ import annotations

import array
import base64
import hashlib
import json
import math
import random
import socket
import sys
import threading
from pathlib import Path

import pytest
from emu_runtime import (
    diag,
    diag_device,
    diag_install,
    diag_instructions,
    diag_memory,
    versions,
)
from emu_runtime.diagnosis import Figures, Finding, Outcome, Plan, Result, Step, run
from emu_runtime.errors import DeviceLostError


def good() -> Figures:
    return {"n": 1}


def bad() -> Figures:
    raise Finding("it is broken", "mend it")


def lost() -> Figures:
    raise DeviceLostError("emud is gone", mend="start it")


def odd() -> Figures:
    raise ZeroDivisionError("odd")


def outcomes(*steps: Step) -> list[tuple[str, str, str]]:
    told: list[Result] = []
    results = run(steps, told.append)
    assert told == results
    return [(result.name, result.outcome.value, result.cause) for result in results]


def test_a_step_runs_only_after_what_it_needs_passed() -> None:
    steps = (
        Step("a", good),
        Step("b", bad, ("a",)),
        Step("c", good, ("b",)),
        Step("d", good, ("c",)),
        Step("e", good, ("a",)),
    )
    assert outcomes(*steps) == [
        ("a", "passed", ""),
        ("b", "failed", "it is broken"),
        ("c", "not run", "needs 'b'"),
        ("d", "not run", "needs 'c'"),
        ("e", "passed", ""),
    ]


@pytest.mark.parametrize(
    ("body", "cause"), [(lost, "emud is gone"), (odd, "ZeroDivisionError: odd")]
)
def test_whatever_a_step_raises_is_its_failure(body: object, cause: str) -> None:
    assert outcomes(Step("a", body)) == [("a", "failed", cause)]  # type: ignore[arg-type]


def test_a_step_that_hangs_fails_and_ends_the_rest() -> None:
    release = threading.Event()

    def hang() -> Figures:
        release.wait(30)
        return {}

    found = outcomes(Step("a", hang, seconds=0.05), Step("b", good))
    release.set()
    assert found == [("a", "failed", "did not end within 0 s"), ("b", "not run", "'a' did not end")]


@pytest.mark.parametrize(
    ("body", "status"), [(good, 0), (bad, 1)], ids=["all passed", "one failed"]
)
def test_exit_status_and_json(
    body: object, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diag_install, "STEPS", (Step("a", body),))  # type: ignore[arg-type]
    monkeypatch.setattr(diag_device, "steps", lambda plan: [])
    assert diag.main(["--json"]) == status
    data = json.loads(capsys.readouterr().out)
    assert data["passed"] == (status == 0)
    assert data["steps"][0]["outcome"] == ("passed" if status == 0 else "failed")
    assert diag.main([]) == status
    text = capsys.readouterr().out
    assert ("mend: mend it" in text) == (status == 1)


def test_a_diagnosis_that_cannot_run_is_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diag_install, "STEPS", (Step("a", good, ("nowhere",)),))
    assert diag.main([]) == 2
    with pytest.raises(SystemExit) as caught:
        diag.main(["--level", "4"])
    assert caught.value.code == 2


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two installed distributions of one file each, as pip leaves them."""
    for name in diag_install.PACKAGES:
        stem = name.replace("-", "_")
        module = tmp_path / stem / "data.bin"
        module.parent.mkdir()
        module.write_bytes(name.encode())
        digest = base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).rstrip(b"=")
        info = tmp_path / f"{stem}-9.9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
        record = f"{stem}/data.bin,sha256={digest.decode()},{len(name)}\n{info.name}/RECORD,,\n"
        (info / "RECORD").write_text(record)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_files_as_installed_pass(installed: Path) -> None:
    assert diag_install.packages() == {"emu-driver-shim": "9.9", "emu-runtime": "9.9"}
    assert diag_install.files() == {"files": 2}


def test_a_changed_file_is_named(installed: Path) -> None:
    (installed / "emu_runtime" / "data.bin").write_bytes(b"changed")
    with pytest.raises(Finding, match=r"emu_runtime/data\.bin of emu-runtime was changed"):
        diag_install.files()


def test_a_missing_file_is_named(installed: Path) -> None:
    (installed / "emu_driver_shim" / "data.bin").unlink()
    with pytest.raises(Finding, match=r"emu_driver_shim/data\.bin .*No such file"):
        diag_install.files()


def test_a_missing_package_is_named(installed: Path) -> None:
    (installed / "emu_runtime-9.9.dist-info" / "METADATA").unlink()
    (installed / "emu_runtime-9.9.dist-info" / "RECORD").unlink()
    (installed / "emu_runtime-9.9.dist-info").rmdir()
    with pytest.raises(Finding, match="emu-runtime is not installed"):
        diag_install.packages()


def test_what_a_killed_installer_left_is_named(installed: Path) -> None:
    (installed / "torch_emu-9.8.dist-info" / "licenses").mkdir(parents=True)
    with pytest.raises(Finding, match=r"killed left \S+/torch_emu-9\.8\.dist-info, with") as found:
        diag_install.packages()
    assert found.value.mend == f"Run: rm -r {installed / 'torch_emu-9.8.dist-info'}"


def test_what_mends_an_install_without_a_record_is_what_pip_takes(installed: Path) -> None:
    assert "--force-reinstall" in versions.reinstall()
    (installed / "emu_runtime-9.9.dist-info" / "RECORD").unlink()
    with pytest.raises(Finding, match="emu-runtime has no RECORD") as found:
        diag_install.files()
    assert found.value.mend == (
        "Run: pip install --ignore-installed --no-deps emu-driver-shim==9.9 emu-runtime==9.9"
    )


def test_parts_of_one_release_are_those_of_the_plugin(installed: Path) -> None:
    info = installed / "torch_emu-9.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-emu\nVersion: 9.8\n")
    (info / "RECORD").write_text("")
    assert versions.reinstall() == (
        "Run: pip install --force-reinstall --no-deps "
        "emu-driver-shim==9.8 emu-runtime==9.8 torch-emu==9.8"
    )


def test_a_node_that_may_not_be_opened_is_named_with_mode_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMU_DEVICE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # a socket's address is short
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("emu0")
    (tmp_path / "emu0").chmod(0o640)
    assert diag_install.node()["nodes"] == 1
    monkeypatch.setattr(diag_install.os, "access", lambda path, mode: False)
    with pytest.raises(Finding, match=r"emu0 \(srw-r-----, owner \w+, group \w+\) may not"):
        diag_install.node()


def test_a_wrong_lane_is_named() -> None:
    cases = {case.name: case for case in diag_instructions.cases(random.Random(1))}
    exact, bounded = cases["alu"], cases["exp"]
    for case in (exact, bounded):
        diag_instructions.check(case, array.array(case.out, case.expected))
    got = array.array("i", [int(value) for value in exact.expected])
    got[3] ^= 1
    with pytest.raises(Finding, match=r"'alu': lane 3: expected -?\d+, got -?\d+"):
        diag_instructions.check(exact, got)
    floats = array.array("d", bounded.expected)
    floats[5] += 3 * math.ulp(floats[5])
    diag_instructions.check(bounded, floats)
    for wrong in (floats[5] + 2 * math.ulp(floats[5]), math.nan):
        floats[5] = wrong
        with pytest.raises(Finding, match="'exp': lane 5"):
            diag_instructions.check(bounded, floats)


def test_a_wrong_byte_is_named() -> None:
    diag_memory.compare("here", b"abc", b"abc")
    with pytest.raises(Finding, match="here: byte 1 of 3: expected 0x62, got 0x78"):
        diag_memory.compare("here", b"abc", b"axc")


def test_outcomes_are_three() -> None:
    assert [kind.value for kind in Outcome] == ["passed", "failed", "not run"]


def test_the_page_lists_the_steps_and_their_levels() -> None:
    text = (Path(__file__).parents[3] / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    listed = [(row[0], int(row[2])) for row in rows if len(row) == 3 and row[2].isdigit()]
    by_level = [{step.name for step in diag_device.steps(Plan(level=level))} for level in (1, 2, 3)]
    names = [step.name for step in (*diag_install.STEPS, *diag_device.steps(Plan(level=3)))]
    first = {step.name for step in diag_install.STEPS} | by_level[0]
    assert listed == [(name, 1 if name in first else 2) for name in names]
    assert by_level[1] == by_level[2]
