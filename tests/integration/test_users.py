"""Users that a clean machine may have: what is installed works for one without a name or a home."""

from __future__ import annotations

import pytest

from qualify.engine import RoomKind
from qualify.errors import RoomError
from qualify.pipeline import Prepared
from qualify.room import RoomSpec, open_room

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
def test_a_user_without_a_name(prepared: Prepared, number: int, home: str) -> None:
    spec = prepared.rooms[number]
    if not spec.engine.has_images:
        pytest.skip("a room without an engine has one user")
    with open_room(spec) as room:
        installed = room.install([wheel.path for wheel in prepared.wheels])
        assert installed.ok, installed.stderr
        words = [room.python, "-c", NOBODY]
        done = room.run(words, user="nameless", env={"HOME": home}, cwd="/", timeout=300)
        assert done.ok, done.stderr
        diagnosis = room.run(["emu-diag"], user="nameless", env={"HOME": home}, timeout=300)
        assert diagnosis.ok, diagnosis.stdout
        named = room.run(words, cwd="/", timeout=300)
        assert "the user has a name" in named.stderr


def test_where_there_is_one_user_it_has_a_name(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        if spec.facts.kind is RoomKind.SANDBOX:
            with pytest.raises(RoomError, match="has one user only"):
                room.run(["true"], user="nameless", timeout=60)
        else:
            done = room.run(["id", "--user", "--name"], user="nameless", timeout=60)
            assert "4242" in done.stderr
