"""Every folder that a program may take for its own, in places that a test can look through.

What may lie there afterwards is data: `places.toml`.
"""

from __future__ import annotations

import fnmatch
import os
import pwd
import stat
import sys
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLES = (
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
)
WORK = "PWD"
"""The working directory, by the name that shells give it."""
OUTSIDE = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/run/lock"))
"""Folders of a machine that anyone may write to, whatever the variables say."""
BROUGHT = {".bash_logout", ".bashrc", ".profile", "bounded", "gates", "releases", "wheels"}
"""What is in a home folder of a made room: Debian's own, and what the gate is run with."""
KEPT = ("PATH", "TORCH_EMU_FALLBACK", "EMU_DEVICE_DIR")
"""The last is there where a host's device is handed in, and says which release's is used."""


class Entry(NamedTuple):
    kind: str
    bytes: int
    """Of a file; 0 for all else."""


class Row(NamedTuple):
    folder: str
    name: str
    by: str
    files: int
    bytes: int
    reason: str


class Places(NamedTuple):
    root: Path

    @property
    def work(self) -> Path:
        return self.root / WORK

    @property
    def env(self) -> dict[str, str | None]:
        """The whole environment of a process that has nothing but these folders."""
        gone = {name: None for name in os.environ if name not in KEPT}
        return {**gone, **{name: str(self.root / name) for name in VARIABLES}}

    def names(self) -> list[str]:
        """All that lies in the folders, as paths below the root; while things come and go, too."""
        folders = (self.root / name for name in (*VARIABLES, WORK))
        return [str(path.relative_to(self.root)) for at in folders for path in below(at)]

    def listing(self) -> dict[str, Entry]:
        """The same with what each is; no link is followed."""
        return {name: _entry(self.root / name) for name in self.names()}


def make(root: Path) -> Places:
    for name in (*VARIABLES, WORK):
        (root / name).mkdir(parents=True, mode=0o700)
    return Places(root)


def below(folder: Path, *, links: bool = True) -> list[Path]:
    """All that lies below a folder, links themselves too unless they are left out."""
    found = (
        Path(where) / name
        for where, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )
    return sorted(path for path in found if links or not path.is_symlink())


def wrong(found: dict[str, Entry]) -> list[str]:
    """How what was found differs from places.toml, in words."""
    rows = [Row(**row) for row in tomllib.loads(_TABLE.read_text(encoding="utf-8"))["places"]]
    said, files, bytes = [], dict.fromkeys(rows, 0), dict.fromkeys(rows, 0)
    for path, entry in found.items():
        folder, name = Path(path).parts[:2]
        row = next((r for r in rows if r.folder == folder and fnmatch.fnmatch(name, r.name)), None)
        if row is None:
            said.append(f"{path}: a {entry.kind} of {entry.bytes} bytes that places.toml lacks")
        elif entry.kind != "folder":
            files[row] += 1
            bytes[row] += entry.bytes
    for row in rows:
        if files[row] > row.files or bytes[row] > row.bytes:
            said.append(
                f"{row.folder}/{row.name}: expected at most {row.files} files of {row.bytes} "
                f"bytes, got {files[row]} of {bytes[row]}"
            )
    return said


def outside() -> set[Path]:
    """What lies in the machine's own open folders."""
    return {path for folder in OUTSIDE if os.access(folder, os.R_OK) for path in folder.iterdir()}


def account() -> set[Path]:
    """What somebody put into the home folder that this user has by name: a program may ask for it
    whatever HOME says. Users without a name, or whose folder cannot be read, have none."""
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        return {path for path in home.iterdir() if path.name not in BROUGHT}
    except (KeyError, OSError):
        return set()


_TABLE = Path(__file__).with_name("places.toml")
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "pipe",
}


def _entry(path: Path) -> Entry:
    found = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "special file")
    return Entry(kind, found.st_size if kind == "file" else 0)
