"""What a room adds to its walls: a clean command line, and what is copied in."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from qualify.room import _archive


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
