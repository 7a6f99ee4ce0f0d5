"""What a room adds to its walls: a clean command line, and what is copied in."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from test_gate import inputs

from qualify.errors import RoomError
from qualify.process import Completed
from qualify.room import PYTHON, WORK, Room, _archive


def test_an_archive_has_no_owner_no_umask_and_no_compiled_python(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    (suite / "__pycache__").mkdir(parents=True)
    (suite / "__pycache__/a.pyc").touch()
    (suite / "a.py").write_text("pass\n")
    (suite / "a.py").chmod(0o600)
    suite.chmod(0o700)
    with tarfile.open(fileobj=io.BytesIO(_archive(suite))) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["suite", "suite/a.py"]
    assert [oct(m.mode) for m in members] == ["0o755", "0o644"]
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, "", "")}


MOUNTS = "33 30 254:0 / / rw - ext4 /dev/vda rw\n"


class Silent:
    """Walls in which `program` does not answer, or fails, and all else is as it should be."""

    def __init__(self, program: str, *, timed_out: bool) -> None:
        self.program, self.timed_out, self.closed = program, timed_out, False

    def start(self) -> None: ...

    def seal(self) -> None: ...

    def attach(self, argv: Sequence[str]) -> int:
        return 0

    def died(self) -> str:
        return ""

    def close(self) -> None:
        self.closed = True

    def execute(self, argv: Sequence[str], *, user: str, stdin: bytes, timeout: float) -> Completed:
        silent = self.program in argv
        said = MOUNTS if "cat" in argv else "debian\n12\nglibc 2.36\n"
        return Completed(
            argv=tuple(argv),
            status=124 if silent else 0,
            stdout="" if silent else said,
            stderr="",
            seconds=timeout,
            timed_out=silent and self.timed_out,
        )


@pytest.mark.parametrize(
    ("program", "timed_out", "told"),
    [
        ("sh", True, "did not say the system that it has: .* when this machine is less busy"),
        ("cat", True, "did not say the mounts that it has"),
        ("cat", False, "has no mount table"),
        ("test", True, "did not say what it can reach"),
    ],
)
def test_a_room_that_does_not_answer_is_neither_clean_nor_another(
    program: str, timed_out: bool, told: str, tmp_path: Path
) -> None:
    (tmp_path / "gate0_health").mkdir()
    spec = inputs(tmp_path).room
    facts = msgspec.structs.replace(
        spec.facts, os_id="debian", os_version="12", glibc="2.36", torch=""
    )
    spec = msgspec.structs.replace(spec, facts=facts, packages=("a",), hidden=(tmp_path,))
    walls = Silent(program, timed_out=timed_out)
    with pytest.raises(RoomError, match=told):
        Room(spec, walls, python=PYTHON, work=WORK).__enter__()
    assert walls.closed
