"""The last resort inherits nothing, and sweeps what dead runs left."""

from __future__ import annotations

import socket
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from qualify.errors import RoomError
from qualify.plain import Plain, sweep
from qualify.process import Completed, run
from qualify.wheelhouse import REQUIREMENTS, pin


def wheelhouse(tmp_path: Path) -> Path:
    """A closure of one wheel, made by hand."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    wheel = folder / "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sample.py", "")
        archive.writestr(
            "sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n"
        )
        archive.writestr(
            "sample-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("sample-1.0.dist-info/RECORD", "")
    (folder / REQUIREMENTS).write_text(pin(wheel))
    return folder


def test_it_inherits_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_CANARY", "outside")
    closure = wheelhouse(tmp_path)
    room = Plain(Path(sys.executable), closure, tmp_path / "rooms")
    try:
        room.start()
        found = room.execute(
            [room.python, "-c", "import sample"], user="room", stdin=b"", timeout=30
        )
        assert found.ok
        done = room.execute(["/usr/bin/env"], user="room", stdin=b"", timeout=30)
        assert done.stdout == "PATH=/usr/bin:/bin\n" and not room.died()
    finally:
        room.close()
    assert room.died() and not list((tmp_path / "rooms").iterdir())
    assert not Path(room.temporary).exists()


def test_pip_has_nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says `user = true`, or names a target, would install elsewhere."""
    ask = ["-m", "pip", "config", "list"]
    monkeypatch.setattr("qualify.plain.Plain.execute", asked := Asked())
    room = Plain(Path(sys.executable), wheelhouse(tmp_path), tmp_path / "rooms")
    try:
        room.start()
    finally:
        room.close()
    (words,) = (words for words in asked.words if "pip" in words)
    before = words[: words.index("-I")]
    said = run([*before[:-1], sys.executable, *ask], env={"PATH": "/usr/bin:/bin"}).stdout
    assert [line for line in said.splitlines() if not line.startswith(":env:")] == []


class Asked:
    """Commands that are kept and not run."""

    def __init__(self) -> None:
        self.words: list[list[str]] = []

    def __call__(self, argv: list[str], **keywords: object) -> Completed:
        self.words.append(argv)
        return Completed(argv=tuple(argv), status=0, stdout="", stderr="", seconds=0)


def test_bytes_that_the_closure_does_not_name_are_not_installed(tmp_path: Path) -> None:
    closure = wheelhouse(tmp_path)
    (wheel,) = closure.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("evil.py", "")
    room = Plain(Path(sys.executable), closure, tmp_path / "rooms")
    try:
        with pytest.raises(RoomError, match="sha256"):
            room.start()
    finally:
        room.close()


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Plain]:
    """A room that is never closed."""
    room = Plain(Path(sys.executable), tmp_path, tmp_path / "rooms")
    yield room
    room.close()


def test_a_socket_fits_where_temporary_files_go(left: Plain) -> None:
    pytest_folder = Path(left.temporary, "pytest-of-somebody/pytest-999", f"{'x' * 30}0")
    pytest_folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(pytest_folder / "emu0"))


def test_a_link_that_the_room_wrote_takes_nothing_away(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for end in ("close", "sweep"):
        room = Plain(Path(sys.executable), tmp_path, tmp_path / "rooms")
        (folder,) = (tmp_path / "rooms").iterdir()
        (folder / "tmp").unlink()
        (folder / "tmp").symlink_to(precious)
        if end == "sweep":
            folder.rename(folder.with_name("1.1.old-abc"))
            sweep(tmp_path / "rooms")
        room.close()
        assert precious.is_dir() and not folder.exists() and not Path(room.temporary).exists()


def test_only_the_folders_of_dead_runs_are_swept(tmp_path: Path, left: Plain) -> None:
    temporary = Path(left.temporary)
    (live,) = (tmp_path / "rooms").iterdir()
    sweep(tmp_path / "rooms")
    assert live.is_dir() and temporary.is_dir()
    dead = live.rename(live.with_name("1.1.old-abc"))
    sweep(tmp_path / "rooms")
    assert not dead.exists() and not temporary.exists()
