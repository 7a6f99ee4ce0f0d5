"""Users that a clean machine may have: what is installed works for one without a name or a home,
and beside one who was first to make the folder that it would have made.
"""

from __future__ import annotations

import msgspec
import pytest

from qualify.images import Declaration
from qualify.pipeline import Prepared
from qualify.room import open_room

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
NOBODY = """
import os, pwd
try:
    pwd.getpwuid(os.getuid())
    raise SystemExit("the user has a name")
except KeyError:
    pass
"""
USE = """
import torch
model = torch.nn.Linear(4, 4)
ones = torch.ones(2, 4)
torch.testing.assert_close(model.to("emu")(ones.to("emu")).cpu(), model.cpu()(ones))
compiled = torch.compile(lambda x: x * 2 + 1, backend="aot_eager")
assert compiled(torch.ones(4, device="emu")).tolist() == [3, 3, 3, 3]
"""


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("home", ["/", "/nonexistent"])
def test_a_user_without_a_name(
    prepared: Prepared, declared: Declaration, number: int, home: str
) -> None:
    spec = prepared.rooms[number]
    if not spec.engine.has_images:
        pytest.skip("a room without an engine has one user")
    (nameless,) = (each for each in declared.setting if each.name == "nameless")
    with open_room(msgspec.structs.replace(spec, setting=nameless)) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        words = [room.python, "-c", NOBODY + USE]
        done = room.run(words, env={"HOME": home}, cwd="/", timeout=300)
        assert done.ok, done.stderr
        diagnosis = room.run(["emu-diag"], env={"HOME": home}, timeout=300)
        assert diagnosis.ok, diagnosis.stdout


def test_a_folder_that_another_user_made(prepared: Prepared) -> None:
    """root was first to use torch.compile here, or has put a link to its own folder there."""
    spec = prepared.rooms[0]
    if not spec.engine.has_images:
        pytest.skip("a room without an engine has one user")
    with open_room(spec) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        where = "import tempfile, getpass; print(tempfile.gettempdir(), getpass.getuser())"
        temporary, user = room.run([room.python, "-c", where], timeout=60).stdout.split()
        theirs = f"{temporary}/torchinductor_{user}"
        for make in (f"mkdir -m 700 {theirs}", f"mkdir -m 755 /opt/own; ln -s /opt/own {theirs}"):
            assert room.run(["sh", "-c", make], timeout=60, user="root").ok
            done = room.run([room.python, "-c", USE], timeout=300)
            assert done.ok, done.stderr
            look = ["sh", "-c", f"ls -A {theirs}/; stat -c %U {theirs}; rm -r {theirs}"]
            assert room.run(look, timeout=60, user="root").stdout == "root\n"
