"""Runs one gate in one fresh room, and makes its record.

Each gate gets a room of its own, so that its result depends on its inputs and on nothing
else: `key` is the digest of those inputs, and a record of the same key stands for a run.
What goes into the room are copies, digested as copies: bytes that are not those of the inputs
are a ChangedError and make no record. Whatever goes wrong in the room (it dies, its disk is
full, the wheels do not install) is a fault in the record: that, too, is evidence.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from qualify import __version__, evidence, owner, report
from qualify.container import NODES_OF_RELEASES
from qualify.content import code_of, sha256_of
from qualify.errors import ChangedError, EvidenceError, InputError, RoomError
from qualify.evidence import Fault, Host, Neighbour, Predicate, Record
from qualify.matrix import Cell, Gate, Layer
from qualify.process import Completed
from qualify.report import Report
from qualify.room import Room, RoomSpec, open_room

REPORT = "report.jsonl"
RELEASES = "releases"
COPIES = "qualify-gate-"
BLOCKS_LEFT = 16  # of 4 KiB: what fails for want of space has left less than what it wanted
CODE = (
    *("gate", "report", "outcome", "evidence", "process", "room", "mounts"),
    "bare",
    *("container", "stream", "images", "sandbox", "sandbox_init", "plain"),
)
"""The modules that make a record: what a room is, what is done in it, and how that is read."""


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one gate's suite, as paths relative to `root`, and their digest."""

    root: Path
    folder: str
    files: tuple[str, ...]
    sha256: str


class Releases(msgspec.Struct, frozen=True, kw_only=True):
    """The releases that a gate of installs and upgrades compares, and what works with what.

    `wheels` are files by the folder that they are laid out in: `before` and `after`; those of the
    release here are the gate's own. `companions` are wheels of others, each with its sha256, and
    `compat` is matrix/compat.toml.
    """

    wheels: dict[str, tuple[Path, ...]]
    neighbours: tuple[Neighbour, ...]
    companions: dict[Path, str]
    compat: Path
    compat_sha256: str


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that shapes what a gate shows."""

    cell: Cell
    gate: Gate
    suite: Suite
    wheels: tuple[Path, ...]
    digests: dict[str, str]
    """Wheel file name to sha256."""
    closure: str
    room: RoomSpec
    releases: Releases | None = None

    @property
    def key(self) -> str:
        shaping = {
            "cell": self.cell.without_images,
            "closure": self.closure,
            "code": code_of(*CODE),
            "gate": self.gate.number,
            "neighbours": self.neighbours,
            "companions": self.companions,
            "compat": self.releases.compat_sha256 if self.releases else "",
            "room": [self.room.facts, self.room.digest],
            "suite": self.suite.sha256,
            "timeout": self.gate.timeout_seconds,
            "wheels": self.digests,
        }
        return hashlib.sha256(msgspec.json.encode(shaping, order="deterministic")).hexdigest()

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        return self.releases.neighbours if self.releases else ()

    @property
    def companions(self) -> dict[str, str]:
        """File name to sha256."""
        found = self.releases.companions if self.releases else {}
        return {path.name: sha256 for path, sha256 in found.items()}


def read_suite(root: Path, gate: Gate) -> Suite:
    """The suite of `gate`: its folder, and the files beside the gates' folders."""
    if not (root / gate.folder).is_dir():
        raise InputError(
            f"gate {gate.number} has no suite",
            expected=f"a folder {root / gate.folder}",
            got="nothing there",
            mend="Add the suite, or take its checks out of matrix/gates.toml",
        )
    shared = [path for path in root.iterdir() if path.is_file()]
    own = [path for path in (root / gate.folder).rglob("*") if path.is_file()]
    files = sorted(
        path.relative_to(root).as_posix()
        for path in (*shared, *own)
        if "__pycache__" not in path.parts and not path.name.startswith(".")
    )
    return Suite(
        root=root, folder=gate.folder, files=tuple(files), sha256=_suite_digest(root, files)
    )


def _suite_digest(root: Path, files: Iterable[str]) -> str:
    lines = [f"{sha256_of(root / name)}  {name}\n" for name in files]
    return evidence.digest("".join(lines).encode())


def run(inputs: Inputs) -> Record:
    """Run the gate in a fresh room; the record says what came of it.

    Raises ChangedError when wheels or suite are no longer those of the inputs.
    """
    started = _now()
    processes: list[Completed] = []
    faults: list[Fault] = []
    written, full = b"", False
    try:
        with _copied(inputs) as (wheels, suite, releases), open_room(inputs.room) as room:
            installed = room.install(wheels)
            processes.append(installed)
            if installed.ok:
                room.seal()
                ended, written = _run_suite(room, suite, releases, inputs)
                processes.append(ended)
            full = _is_full(room)
    except RoomError as error:
        faults.append(Fault(layer=Layer.PIPELINE, what=str(error)))
    try:
        facts = report.parse(written)
    except (EvidenceError, OverflowError, RecursionError) as error:
        facts = Report()
        faults.append(Fault(layer=Layer.PIPELINE, what=str(error)))
    faults += judge_run(processes, facts, inputs.gate.timeout_seconds, died=bool(faults), full=full)
    try:
        return _record(inputs, facts, faults, processes, started)
    except (EvidenceError, OverflowError, RecursionError) as error:
        # What checks said can be more than a record can hold: a gate is not lost for it.
        what = f"what the checks wrote cannot be kept: {error}"
        faults.append(Fault(layer=Layer.PIPELINE, what=what))
        return _record(inputs, Report(), faults, processes, started)


def _record(
    inputs: Inputs,
    facts: Report,
    faults: list[Fault],
    processes: list[Completed],
    started: datetime.datetime,
) -> Record:
    """The record, which is proved to be one that can be read again."""
    made = evidence.record(
        inputs.digests,
        Predicate(
            schema=1,
            key=inputs.key,
            cell=inputs.cell,
            evidence=inputs.cell.evidence,
            gate=inputs.gate.number,
            device=inputs.cell.device,
            room=inputs.room.facts,
            host=read_host(),
            torch=inputs.room.facts.torch,
            closure=inputs.closure,
            neighbours=inputs.neighbours,
            companions=inputs.companions,
            suite=inputs.suite.sha256,
            planned=facts.planned,
            attempts=facts.attempts,
            results=evidence.results(facts.planned, facts.attempts),
            end=facts.end,
            faults=tuple(faults),
            processes=tuple(evidence.shorten(done) for done in processes),
            started=started,
            finished=_now(),
            tool=__version__,
        ),
    )
    return evidence.decode(evidence.encode(made))


@contextmanager
def _copied(inputs: Inputs) -> Iterator[tuple[list[Path], Path, Path | None]]:
    """Copies of the wheels, a folder with one of the suite, and one with the releases where the
    gate compares them: all are what the inputs say."""
    with owner.scratch(Path(tempfile.gettempdir()), COPIES) as folder:
        wheels, suite = [], folder / "gates"
        for wheel in inputs.wheels:
            wheels.append(Path(shutil.copyfile(wheel, folder / wheel.name)))
            _unchanged(wheel, inputs.digests[wheel.name], sha256_of(wheels[-1]))
        for file in inputs.suite.files:
            (suite / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(inputs.suite.root / file, suite / file)
        _unchanged(
            inputs.suite.root / inputs.suite.folder,
            inputs.suite.sha256,
            _suite_digest(suite, inputs.suite.files),
        )
        releases = None
        if inputs.releases:
            releases = lay_out(folder, inputs.wheels, inputs.releases)
            for neighbour in inputs.neighbours:
                path = releases / neighbour.release / neighbour.name
                _unchanged(path, neighbour.digest.sha256, sha256_of(path))
            for name, sha256 in inputs.companions.items():
                path = releases / "companions" / name
                _unchanged(path, sha256, sha256_of(path))
            _unchanged(
                inputs.releases.compat,
                inputs.releases.compat_sha256,
                sha256_of(releases / inputs.releases.compat.name),
            )
        yield wheels, suite, releases


def lay_out(folder: Path, here: Iterable[Path], releases: Releases) -> Path:
    """A folder `releases` in `folder`, as the suite takes it: one folder a release, `here` among
    them, one of companions, and the compatibility file."""
    made = folder / RELEASES
    folders = {"here": here, **releases.wheels, "companions": releases.companions}
    for name, wheels in folders.items():
        (made / name).mkdir(parents=True)
        for wheel in wheels:
            shutil.copyfile(wheel, made / name / wheel.name)
    shutil.copyfile(releases.compat, made / releases.compat.name)
    return made


def _unchanged(path: Path, expected: str, got: str) -> None:
    if expected != got:
        raise ChangedError(
            f"{path} changed while the gates were running",
            expected=expected,
            got=got,
            mend="Run again when nothing writes to it; the records so far are kept",
        )


def _run_suite(
    room: Room, suite: Path, releases: Path | None, inputs: Inputs
) -> tuple[Completed, bytes]:
    """Copy the suite in, run it, and bring back what it wrote, which may be nothing."""
    folder = room.put(suite)
    words = [room.python, "-m", "pytest", inputs.suite.folder, "--report", REPORT]
    words += ["--device", inputs.cell.device, "-p", "pytest_timeout"]
    if inputs.cell.configurations:
        words += ["--configurations", ",".join(inputs.cell.configurations)]
    if releases:
        words += ["--releases", room.put(releases)]
    if releases and inputs.room.devices:
        words += ["--nodes", NODES_OF_RELEASES]
    # What is judged brings no plugin of its own to the judge.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = room.run(words, cwd=folder, env=alone, timeout=inputs.gate.timeout_seconds)
    try:
        return ended, room.get(f"{folder}/{REPORT}")
    except RoomError as error:
        # Without a report the process's own end says more than the missing file does.
        if room.run(["true"], timeout=60).ok:
            return ended, b""
        raise RoomError(f"the room no longer answers: {error}") from error


def _is_full(room: Room) -> bool:
    """Whether the room's disk has no block left. What a program says of it proves nothing."""
    free = room.run(["stat", "--file-system", "--format=%a", room.work], timeout=60).stdout.strip()
    return free.isdigit() and int(free) < BLOCKS_LEFT


def judge_run(
    processes: list[Completed], facts: Report, timeout: int, *, died: bool, full: bool
) -> list[Fault]:
    """What kept the gate from its end, from its processes (installation, suite) and its report.

    `full`: the room's disk was, at the end.
    """
    faults = [
        Fault(layer=Layer.PIPELINE, what=f"cannot be collected: {_last_line(what)} ({where})")
        for where, _, what in (fault.partition(": ") for fault in facts.faults)
    ]
    outputs = [f"{done.stdout}\n{done.stderr}" for done in processes]
    if full and not (facts.end == 0 and processes[-1].ok):
        faults.append(Fault(layer=Layer.PIPELINE, what=evidence.FULL))
    elif processes and processes[-1].timed_out:
        faults.append(Fault(layer=Layer.PIPELINE, what=f"the gate did not end in {timeout} s"))
    elif len(processes) == 1 and not processes[0].ok:
        what = f"the wheels do not install: {_last_line(outputs[0])}"
        faults.append(Fault(layer=Layer.PACKAGE, what=what))
    elif facts.end is None and not died and len(processes) > 1:
        what = f"the gate's process ended with status {processes[-1].status} before its end"
        said = _last_line(outputs[-1])
        faults.append(Fault(layer=Layer.PIPELINE, what=f"{what}: {said}" if said else what))
    elif facts.end is not None and processes and processes[-1].status != facts.end:
        what = f"the gate ended with {facts.end}, and its process with {processes[-1].status} then"
        faults.append(Fault(layer=Layer.PIPELINE, what=what))
    return faults


def read_host() -> Host:
    """The facts of this machine."""
    cpu = platform.processor()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return Host(
        system=platform.system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=cpu,
        cpus=os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
