"""Stages whose output is found by the digest of their inputs.

A stage is a name, a mapping of named inputs (strings: digests, versions, flags)
and a function that fills an empty folder. Its output lies in
`<cache>/stages/<name>/<key>/`, where key is the sha256 over the inputs. Work is
done in a temporary sibling and renamed when complete, so a folder under its key
was whole when it was made. `<key>.json` beside it says the inputs, the size and the
digest of each file, and its modification time is the last use.

An output is verified whenever it is taken: no file more, less or other than was made.
Up to `READ_BYTES`, which is more than any of our wheels, every byte is read each time.
Of a larger one (torch and its closure are gigabytes) only those files are read whose
size, inode, mode or times of change are not the ones that were seen when they were
last read: see `qualify.content`. What is not as it was made is named and made again.

Each key has two locks. `.<key>.lock` is held while the output is made or removed,
so that two runs don't do the same work twice. `.<key>.use` is shared by the runs
that may still read the output, so that nobody evicts it under them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from qualify.content import File, differences, digest_of, survey
from qualify.errors import ChangedError, HostError, host_errors
from qualify.progress import size_of, so_far

Progress = Callable[[str], None]
"""Called with one plain line about what is going on now; never with secrets."""


FIRST_BEAT_SECONDS = 5.0
LONGEST_BEAT_SECONDS = 30.0
PASSING_SECONDS = 2.0
READ_BYTES = 256 * 10**6


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The output of one stage. `seconds` is what this call took; `reused` if nothing ran.

    `sha256` is over all files of a folder; empty for an output that is none.
    """

    name: str
    key: str
    path: Path
    seconds: float
    reused: bool
    sha256: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What `<key>.json` holds."""

    inputs: dict[str, str]
    bytes: int
    files: dict[str, File] = {}


class Stages:
    """The cache of stage outputs under one folder.

    `bound` bytes are kept at most (least recently used goes first); a stage
    does not start when less than `keep_free` bytes of the disk are free and
    eviction does not help (HostError). Every finished stage is appended to
    `timings`. While one is being made, how far it is goes to `passing` every
    `PASSING_SECONDS`, or without that (nothing can be overwritten) to `progress`,
    at growing intervals.
    """

    def __init__(
        self,
        root: Path,
        *,
        bound: int = 30 * 10**9,
        keep_free: int = 20 * 10**9,
        progress: Progress = lambda line: None,
        passing: Progress | None = None,
    ) -> None:
        self.root = root
        self.bound = bound
        self.keep_free = keep_free
        self.progress = progress
        self.passing = passing
        self.timings: list[Output] = []
        self._held: dict[Path, int] = {}
        self._going: dict[str, str] = {}
        (root / "stages").mkdir(parents=True, exist_ok=True)
        self._sweep()

    def make(self, name: str, inputs: Mapping[str, str], work: Callable[[Path], None]) -> Output:
        """The output of stage `name` for `inputs`; runs `work(empty_folder)` if it is not there.

        Whatever `work` raises comes through, and its half-made folder is removed. Raises
        ChangedError when the output is damaged and a run, this one or another, is using it.
        """
        start = time.monotonic()
        key = key_of(name, inputs)
        folder = self.root / "stages" / name / key
        folder.parent.mkdir(parents=True, exist_ok=True)
        reused = True
        while (entry := self._take(folder)) is None:
            with _locked(
                _lock_of(folder), wait=lambda: self.progress(f"{name}: another run has it")
            ):
                if not folder.is_dir():
                    self.require_space(name)
                    made = _temporary_of(folder)
                    with self.announced(name, made), host_errors(f"stage {name}"):
                        self._fill(folder, dict(inputs), work)
                    reused = False
        output = Output(
            name=name,
            key=key,
            path=folder,
            seconds=time.monotonic() - start,
            reused=reused,
            sha256=digest_of(entry.files),
        )
        self.timings.append(output)
        if not reused:
            self._evict(self.bound)
        return output

    def _fill(self, folder: Path, inputs: dict[str, str], work: Callable[[Path], None]) -> None:
        temporary = _temporary_of(folder)
        remove_tree(temporary)
        temporary.mkdir()
        try:
            work(temporary)
            entry = Entry(inputs=inputs, bytes=size_of(temporary), files=survey(temporary))
            _entry_of(folder).write_bytes(msgspec.json.encode(entry))
            temporary.rename(folder)
        finally:
            remove_tree(temporary)

    def _take(self, folder: Path) -> Entry | None:
        """Hold the output for the life of this object, if it is there and as it was made."""
        handle = self._held.get(folder)
        held = handle is not None and _same_file(handle, _use_of(folder))
        if not held and not self._hold(folder):
            return None
        entry = _read_entry(folder)
        known = entry.files if entry else {}
        changed, found = differences(
            folder, known, read_all=entry is None or entry.bytes <= READ_BYTES
        )
        if entry is not None and not changed:
            if found != known:
                with _locked(_lock_of(folder), wait=None) as taken:
                    if taken:
                        _refresh(folder, msgspec.structs.replace(entry, files=found))
            os.utime(_entry_of(folder))
            return entry
        if not held:
            self._let_go(folder)
        self._discard(folder, entry, changed[0] if entry else _entry_of(folder).name)
        return None

    def _hold(self, folder: Path) -> bool:
        """Take the shared lock, if the output is there."""
        if not folder.is_dir():
            return False
        self._let_go(folder)  # of a cache that was removed
        handle = self._held[folder] = _open_lock(_use_of(folder))
        fcntl.flock(handle, fcntl.LOCK_SH)
        if folder.is_dir() and _same_file(handle, _use_of(folder)):
            return True
        self._let_go(folder)
        return False

    def _let_go(self, folder: Path) -> None:
        if (handle := self._held.pop(folder, None)) is not None:
            os.close(handle)

    def _discard(self, folder: Path, entry: Entry | None, changed: str) -> None:
        """Remove the damaged output that `entry` is about, unless a run is using it."""
        name = folder.parent.name
        with (
            _locked(_lock_of(folder), wait=lambda: None),
            _locked(_use_of(folder), wait=None) as unused,
        ):
            if _read_entry(folder) != entry:
                return  # another run has seen it too, and made it again
            if not unused:
                raise ChangedError(
                    f"stage {name}: {folder / changed} changed while a run is using it",
                    expected="the file as it was made",
                    got="another, or none",
                    mend="Run again when no other run is going on: it will be made anew",
                )
            self.progress(f"{name}: {changed} is not as it was made; making it again")
            _remove(folder)

    @contextlib.contextmanager
    def announced(self, name: str, folder: Path | None = None) -> Iterator[None]:
        """Say that `name` is being made, how far its `folder` is by now, and how long it took."""
        start = time.monotonic()
        over = threading.Event()
        going = self._going

        def beat() -> None:
            say, first, longest = self.progress, FIRST_BEAT_SECONDS, LONGEST_BEAT_SECONDS
            if self.passing is not None:
                say, first, longest = self.passing, PASSING_SECONDS, PASSING_SECONDS
            pause = first
            while not over.wait(pause):
                seconds = time.monotonic() - start
                shown = so_far(folder) if folder else ""
                going[name] = f"{name}: {seconds:.0f} s" + (f", {shown}" if shown else "")
                # One row has all that goes on; of lines that stay, each has its own.
                say(" | ".join(list(going.values())) if self.passing else going[name])
                pause = min(seconds, longest)

        self.progress(f"{name}: making")
        beats = threading.Thread(target=beat, daemon=True)
        beats.start()
        try:
            yield
        finally:
            over.set()
            beats.join()
            going.pop(name, None)
        self.progress(f"{name}: done in {time.monotonic() - start:.1f} s")

    def require_space(self, name: str) -> None:
        """Raise HostError when the disk is too full to make `name`, after evicting what may go."""
        if shutil.disk_usage(self.root).free >= self.keep_free:
            return
        self._evict(0)
        free = shutil.disk_usage(self.root).free
        if free < self.keep_free:
            raise HostError(
                f"stage {name} does not start: the disk of {self.root} is too full",
                expected=f"at least {self.keep_free / 1e9:.0f} GB free",
                got=f"{free / 1e9:.1f} GB",
                mend="Free some disk, or set QUALIFY_CACHE to a folder on a larger one",
            )

    def _evict(self, bound: int) -> None:
        """Remove the least recently used outputs that nobody holds until `bound` is kept."""
        entries = []
        for path in (self.root / "stages").glob("*/*.json"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                entry = msgspec.json.decode(path.read_bytes(), type=Entry)
                entries.append((path.stat().st_mtime, path, entry.bytes))
        total = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if total <= bound:
                return
            folder = path.with_suffix("")
            with (
                _locked(_lock_of(folder), wait=None) as taken,
                _locked(_use_of(folder), wait=None) as unused,
            ):
                if taken and unused:
                    self.progress(f"{folder.parent.name}: removing {folder.name[:12]}")
                    _remove(folder)
                    for file in (path, _lock_of(folder), _use_of(folder)):
                        file.unlink(missing_ok=True)
                    total -= size

    def _sweep(self) -> None:
        """Remove what an interrupted run left behind: temporaries whose lock nobody holds."""
        for temporary in (self.root / "stages").glob("*/.*.tmp"):
            folder = temporary.with_name(temporary.name[1:-4])
            with _locked(_lock_of(folder), wait=None) as taken:
                if taken:
                    remove_tree(temporary)

    def close(self) -> None:
        """Let go of the outputs; another run may then evict them."""
        for folder in list(self._held):
            self._let_go(folder)


def cache_root(tree: Path) -> Path:
    """`$QUALIFY_CACHE`, or `.cache` in the checkout."""
    return Path(os.environ.get("QUALIFY_CACHE") or tree / ".cache").absolute()


def key_of(name: str, inputs: Mapping[str, str]) -> str:
    """sha256 over the stage's name and its named inputs, in an order of their own."""
    text = msgspec.json.encode([name, sorted(inputs.items())])
    return hashlib.sha256(text).hexdigest()


def remove_tree(folder: Path) -> None:
    """Remove `folder` whole, also where a tool left subfolders without permissions, or a file."""
    if not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    with contextlib.suppress(PermissionError):
        shutil.rmtree(folder)
        return
    for path, names, _ in os.walk(folder):
        for name in names:
            if not (Path(path) / name).is_symlink():
                (Path(path) / name).chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


def _remove(folder: Path) -> None:
    """Remove an output in one step, as others see it."""
    grave = _temporary_of(folder)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(grave)
    remove_tree(grave)


def _read_entry(folder: Path) -> Entry | None:
    """What is known of an output; None where that is gone or damaged."""
    try:
        return msgspec.json.decode(_entry_of(folder).read_bytes(), type=Entry)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _refresh(folder: Path, entry: Entry) -> None:
    """Write down the new marks of files that were read again; whole, or not at all."""
    temporary = _temporary_of(folder)
    temporary.write_bytes(msgspec.json.encode(entry))
    temporary.replace(_entry_of(folder))


def _entry_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".json")


def _temporary_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.tmp")


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _use_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.use")


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _same_file(handle: int, path: Path) -> bool:
    """Whether the open lock is still the file at `path` (eviction removes lock files)."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(path: Path, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The exclusive lock at `path`; calls `wait` before waiting. The file stays."""
    with _locked(path, wait=wait):
        yield


@contextlib.contextmanager
def _locked(path: Path, *, wait: Callable[[], None] | None) -> Iterator[bool]:
    """The exclusive lock at `path`. Without `wait`, yields whether it was free."""
    while True:
        handle = _open_lock(path)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if wait is None:
                    yield False
                    return
                wait()
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _same_file(handle, path):
                yield True
                return
        finally:
            os.close(handle)
