"""emu-fw on a real emud, from the build tree; and its ctypes against the compiled header."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualify.process import Completed, run

SHIM = Path(__file__).parents[3] / "driver_shim"


def python(package: Path, text: str, *words: str, **environment: str) -> Completed:
    env = {"PATH": os.defpath, "PYTHONPATH": str(package), **environment}
    return run([sys.executable, "-c", text, *words], env=env, timeout=60)


Tool = Callable[..., Completed]


@pytest.fixture
def fw(package: Path, tmp_path: Path) -> Tool:
    """`fw(words…)` runs emu-fw on a private device whose state is this test's."""
    program = "import sys; from emu_driver_shim.firmware import main; sys.exit(main())"
    state = str(tmp_path / "state")
    nowhere = str(tmp_path / "no-devices")

    def start(*words: object, **environment: str) -> Completed:
        env = {"EMU_STATE_DIR": state, "EMU_DEVICE_DIR": nowhere, **environment}
        return python(package, program, *map(str, words), **env)

    return start


def data(done: Completed) -> dict[str, Any]:
    assert done.ok, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.fixture
def image(tmp_path: Path) -> Callable[..., Path]:
    def make(version: str, rollback_index: int = 1, interface: str = "1.0") -> Path:
        out = tmp_path / f"{version}.img"
        tool = str(SHIM / "tools" / "firmware_image.py")
        words = ["--version", version, "--rollback-index", str(rollback_index)]
        done = run([sys.executable, tool, *words, "--interface", interface, str(out)])
        assert done.ok, done.stderr
        return out

    return make


def test_upgrade_and_rollback(fw: Tool, image: Callable[..., Path]) -> None:
    assert fw("install", image("1.1.0")).ok
    info = data(fw("info", "--json"))
    assert (info["version"], info["active"], info["pending"]) == ("1.0.0", 0, None)
    assert info["slots"][1]["state"] == "valid" and info["slots"][1]["version"] == "1.1.0"
    assert fw("activate").ok  # the next emud starts it
    info = data(fw("info", "--json"))
    assert (info["version"], info["active"], info["previous"]) == ("1.1.0", 1, 0)
    told = fw("info").stdout
    assert "runs 1.1.0 from slot 1; slots are kept in a folder" in told
    assert "slot 0: valid 1.0.0 rollback index 1, interface 1.0 or newer (previous)" in told
    assert fw("rollback").ok
    assert data(fw("info", "--json"))["version"] == "1.0.0"


def test_reset_starts_it_at_once(fw: Tool, image: Callable[..., Path]) -> None:
    assert fw("install", image("1.1.0")).ok and fw("activate").ok
    assert data(fw("rollback", "--json"))["version"] == "1.1.0"
    assert data(fw("reset", "--json"))["version"] == "1.0.0"


def test_events_are_told(fw: Tool) -> None:
    events = data(fw("events", "--json"))
    assert events["dropped"] == 0
    (boot,) = events["events"]
    assert (boot["kind"], boot["sequence"], boot["ticks"]) == ("boot", 1, 0)
    assert "boot: started 1.0.0 from slot 0" in fw("events").stdout


REFUSALS = {
    "damaged": ("BAD_FIRMWARE", "expected a payload of digest"),
    "cut short": ("BAD_FIRMWARE", "cut short: expected 203 bytes, got 190"),
    "newer": ("VERSION", "got 1.900"),
    "too old": ("ROLLBACK", "expected rollback index 1 or more, got 0"),
    "empty": ("BAD_FIRMWARE", "expected an image, got 0 bytes"),
    "missing": ("HOST", "No such file"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(fw: Tool, image: Callable[..., Path], name: str) -> None:
    path = image("1.1.0", 0 if name == "too old" else 1, "1.900" if name == "newer" else "1.0")
    whole = path.read_bytes()
    if name == "damaged":
        path.write_bytes(whole[:-1] + b"?")
    elif name in ("cut short", "empty"):
        path.write_bytes(whole[: 190 if name == "cut short" else 0])
    elif name == "missing":
        path.unlink()
    status, said = REFUSALS[name]
    done = fw("install", path, "--json")
    assert done.status == 1
    error = json.loads(done.stdout)["error"]
    assert error["status"] == status and said in error["cause"]
    assert done.stderr.startswith("emu-fw: ") and said in done.stderr
    info = data(fw("info", "--json"))
    assert info["version"] == "1.0.0" and info["slots"][1]["state"] != "valid"
    assert fw("activate").status == 1


def test_a_device_that_keeps_nothing_is_not_changed(fw: Tool, image: Callable[..., Path]) -> None:
    done = fw("install", image("1.1.0"), EMU_STATE_DIR="")
    assert done.status == 1 and "keeps nothing" in done.stderr and "EMU_STATE_DIR" in done.stderr
    assert "slots are in memory" in fw("info", EMU_STATE_DIR="").stdout


def test_no_device_is_told(fw: Tool) -> None:
    done = fw("info", "--json", EMU_PRIVATE="0")
    assert done.status == 1
    assert json.loads(done.stdout)["error"]["status"] == "NO_DEVICE"
    assert "EMU_PRIVATE=0" in done.stderr


@pytest.mark.parametrize("words", [(), ("install",), ("info", "--device", "-1"), ("erase",)])
def test_a_wrong_command_line_is_status_2(fw: Tool, words: tuple[str, ...]) -> None:
    assert fw(*words).status == 2


STRUCTS = {
    "emu_error": "CError",
    "emu_device_info": "CDeviceInfo",
    "emu_firmware_slot": "CFirmwareSlot",
    "emu_firmware_info": "CFirmwareInfo",
    "emu_event": "CEvent",
    "emu_fault": "CFault",
    "emu_link_info": "CLinkInfo",
    "emu_driver_api": "CApi",
}
LAYOUT = """
import ctypes, json, sys
from emu_driver_shim import driver
structs = {c: getattr(driver, name) for c, name in json.loads(sys.argv[1]).items()}
print(json.dumps({
    c: {**{f: [getattr(s, f).offset, getattr(s, f).size] for f, _ in s._fields_},
        "": [0, ctypes.sizeof(s)]}
    for c, s in structs.items()
}))
"""


def test_fields_stand_where_the_header_puts_them(package: Path, tmp_path: Path) -> None:
    ours = data(python(package, LAYOUT, json.dumps(STRUCTS)))
    lines = []
    for name, fields in ours.items():
        for field in filter(None, fields):
            lines.append(
                f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}), '
                f"sizeof((({name}*)0)->{field}));"
            )
        lines.append(f'printf("{name} - 0 %zu\\n", sizeof({name}));')
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    body = "\n".join(lines)
    source.write_text(
        f'#include <stdio.h>\n#include "emu/driver.h"\nint main(void) {{\n{body}\n}}\n'
    )
    built = run(
        ["cc", "-Wall", "-Werror", f"-I{SHIM / 'include'}", str(source), "-o", str(program)]
    )
    assert built.ok, built.stderr
    rows = [line.split() for line in run([program]).stdout.splitlines()]
    theirs: dict[str, dict[str, list[int]]] = {}
    for name, field, offset, size in rows:
        theirs.setdefault(name, {})[field.strip("-")] = [int(offset), int(size)]
    assert ours == theirs
