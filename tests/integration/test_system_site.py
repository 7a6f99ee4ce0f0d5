"""In the system's own Python, as root puts them there: Debian's folders, and not those of a venv.

No check of gate 7, which runs as a user and could only skip it. torch comes from the room's
environment, by a path file: that is what a system without it would get from a distribution.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from qualify.pipeline import Prepared
from qualify.process import Completed
from qualify.room import Room, open_room

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
SYSTEM = "/usr/bin/python3"
PLACE = "import sysconfig, sys; print(sysconfig.get_path('purelib'), *sys.version_info[:2])"
NAMES = ("emu-driver-shim", "emu-runtime", "torch-emu")
USE = """
import json, torch, torch_emu, emu_runtime, emu_driver_shim
ones = torch.ones(2, 4)
layer = torch.nn.Linear(4, 4)
torch.testing.assert_close(layer.to("emu")(ones.to("emu")).cpu(), layer.cpu()(ones))
parts = (emu_driver_shim, emu_runtime, torch_emu)
print(json.dumps([torch_emu.__version__, *sorted({m.__file__.rsplit("/", 2)[0] for m in parts})]))
"""


def pip(room: Room, *words: str) -> Completed:
    """pip in the system's Python, which has none of its own: the environment's runs under it."""
    argv = [room.python, "-I", "-m", "pip", "--python", SYSTEM, *words, "--break-system-packages"]
    done = room.run(argv, timeout=300, user="root")
    assert done.ok, done.stderr
    return done


def install(room: Room, wheels: Sequence[Path]) -> None:
    files = [room.put(wheel, f"{room.work}/wheels") for wheel in wheels]
    pip(room, "install", "--quiet", "--no-index", "--no-deps", "--root-user-action=ignore", *files)


def test_installed_upgraded_and_taken_out(prepared: Prepared) -> None:
    spec = next((room for room in prepared.rooms if room.engine.has_images), None)
    if spec is None or prepared.releases is None:
        pytest.skip("a room without an engine has no root, and no system of its own")
    with open_room(spec) as room:
        asked = room.run([SYSTEM, "-c", PLACE], timeout=60)
        assert asked.ok, asked.stderr
        place, *version = asked.stdout.split()
        own = room.run([room.python, "-c", PLACE], timeout=60).stdout.split()
        if own[1:] != version:
            pytest.skip(f"torch is here for Python {'.'.join(own[1:])}, the system's is another")
        assert place.startswith("/usr/local/") and place.endswith("/dist-packages")
        listing = ["find", "/usr/local", "-iname", "*emu*"]
        words = ["sh", "-c", f"mkdir -p {place} && echo {own[0]} > {place}/torch.pth"]
        assert room.run(words, timeout=60, user="root").ok
        before = prepared.releases.wheels["before"]
        for wheels in (before, [wheel.path for wheel in prepared.wheels]):
            install(room, wheels)
            used = room.run([SYSTEM, "-c", USE], timeout=300, cwd="/")
            assert used.ok, used.stderr
            assert json.loads(used.stdout) == [wheels[0].name.split("-")[1], place]
        diagnosis = room.run(["/usr/local/bin/emu-diag"], timeout=300)
        assert diagnosis.ok, diagnosis.stdout
        assert room.run(listing, timeout=60).stdout
        pip(room, "uninstall", "--quiet", "--yes", "--root-user-action=ignore", *NAMES)
        left = room.run(listing, timeout=60)
        assert left.ok and left.stdout == ""
