"""Users that a clean machine may have: what is installed works for one without a name or a home."""

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
        words = [room.python, "-c", NOBODY]
        done = room.run(words, env={"HOME": home}, cwd="/", timeout=300)
        assert done.ok, done.stderr
        diagnosis = room.run(["emu-diag"], env={"HOME": home}, timeout=300)
        assert diagnosis.ok, diagnosis.stdout
