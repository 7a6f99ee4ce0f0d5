"""From a checkout to a verdict, top to bottom: each stage takes what the one before it made.

matrix -> cell -> interpreter -> wheelhouse -> wheels -> audit -> rooms -> gates -> records
-> verdict

A stage whose inputs have not changed is not run again: its output is found by the digest of
its inputs, a gate's in the index of records.
"""

from __future__ import annotations

import datetime
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from packaging.version import Version

from qualify import (
    build,
    cibuildwheel,
    doctor,
    engine,
    evidence,
    gate,
    images,
    index,
    inspection,
    installs,
    interpreter,
    neighbours,
    owner,
    rooms,
    wheelhouse,
)
from qualify import rebuild as rebuilding
from qualify.audit import baseline
from qualify.audit.policy import Audit
from qualify.audit.report import Report
from qualify.build import Wheel
from qualify.claim import Asked, Denial, Question, Verdict
from qualify.errors import BuildError, EvidenceError, HostError, InputError, RoomError
from qualify.evidence import Record
from qualify.gate import Inputs, Releases
from qualify.matrix import Cell, Cells, Gates, Policy, Tier, Waivers, gate_of, load, read_waivers
from qualify.process import Completed
from qualify.room import Room, RoomSpec, open_room
from qualify.stage import Output, Stages
from qualify.verdict import decide
from qualify.wheelhouse import Closure
from qualify.workers import AT_ONCE, Workers

OWN_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
BENCH_SECONDS = 1200


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """All of matrix/*.toml that a verdict needs."""

    gates: Gates
    policy: Policy
    audit: Audit
    waivers: Waivers
    cells: Cells


def read_matrix(tree: Path) -> Matrix:
    folder = tree / "matrix"
    if not folder.is_dir():
        raise InputError(
            f"{tree.resolve()} is no checkout",
            expected="a folder that has matrix/",
            got="none",
            mend="Run this in a checkout, or pass --tree",
        )
    gates = load(folder / "gates.toml", Gates)
    return Matrix(
        gates=gates,
        policy=load(folder / "policy.toml", Policy),
        audit=baseline.read(tree),
        waivers=read_waivers(folder / "waivers.toml", gates),
        cells=load(folder / "cells.toml", Cells),
    )


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a build needs, looked at before anything is made."""

    matrix: Matrix
    cell: Cell
    python: interpreter.Python
    engine: engine.Engine
    images: images.Declaration


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to the rooms' doors: what is to be installed, and what rooms are made of.

    `rooms` are those that were made; `hidden` is what must be out of every room's reach.
    """

    matrix: Matrix
    cell: Cell
    choice: rooms.Choice
    images: images.Declaration
    closure: Closure
    wheels: tuple[Wheel, ...]
    denials: tuple[Denial, ...]
    releases: Releases | None
    hidden: tuple[Path, ...]
    rooms: tuple[RoomSpec, ...] = ()


def prepare(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    *,
    python: str,
    room: str,
    named: str = "",
    even_denied: bool = True,
    with_neighbours: bool = True,
) -> Prepared:
    """Build the wheels of `python`'s cell, audit them, and make the images of its two rooms, or of
    the one that is `named`, which may be any that the install matrix can name.

    For wheels that the policy denies there are rooms only with `even_denied`, to look at them.
    And, unless told otherwise, build the wheels of the releases before and after.
    """
    begun = begin(tree, stages, python=python, room=room, to_claim=not named)
    choice = rooms.choose_rooms(
        stages, begun.engine, begun.images, begun.python, fewest=1 if named else 2
    )
    if named:
        require_room(choice, begun.images, named)
    made = prepare_wheels(
        tree,
        evidence_folder,
        stages,
        begun,
        choice,
        even_denied=even_denied,
        with_neighbours=with_neighbours,
    )
    if made.denials and not even_denied:
        return made
    if named and begun.engine.has_images:
        return msgspec.structs.replace(made, rooms=(named_room(stages, made, named),))
    specs = rooms.prepare_rooms(stages, choice, made.closure, made.hidden)
    asked = tuple(spec for spec in specs if named in ("", spec.facts.name))
    return msgspec.structs.replace(made, rooms=asked)


def require_room(choice: rooms.Choice, declared: images.Declaration, name: str) -> None:
    """Raise InputError for a name that no room has, HostError where it can't be made here."""
    if choice.engine.has_images:
        installs.require(choice, declared, (name,))
    elif name not in (known := rooms.names_without_images(choice.engine)):
        raise InputError("unknown room", expected=", ".join(known), got=repr(name))


def prepare_wheels(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    begun: Begun,
    choice: rooms.Choice,
    *,
    even_denied: bool = False,
    with_neighbours: bool = True,
) -> Prepared:
    """All that is to be installed, and no room."""
    closure, wheels = make_wheels(tree, stages, begun)
    audit = begun.matrix.audit
    denied = inspection.denials(inspection.audit_wheels(stages, audit, wheels, closure), audit)
    releases = None
    if with_neighbours and (even_denied or not denied):
        releases = make_neighbours(tree, stages, begun, closure, wheels)
    evidence_folder.mkdir(parents=True, exist_ok=True)
    return Prepared(
        matrix=begun.matrix,
        cell=begun.cell,
        choice=choice,
        images=begun.images,
        closure=closure,
        wheels=wheels,
        denials=denied,
        releases=releases,
        hidden=(tree, evidence_folder),
    )


def named_room(stages: Stages, made: Prepared, name: str) -> RoomSpec:
    """A room of the install matrix."""
    devices = installs.devices_of(made.wheels, made.releases)
    return installs.spec_of(
        stages, made.choice, made.images, name, made.closure, made.hidden, devices
    )


def built(tree: Path, stages: Stages, python: str, room: str) -> list[Path]:
    """Our wheels, built if they are not there."""
    begun = begin(tree, stages, python=python, room=room)
    return [wheel.path for wheel in make_wheels(tree, stages, begun)[1]]


def audit(tree: Path, stages: Stages, python: str, room: str) -> list[Report]:
    """What inspection finds in our wheels, built if they are not there; no room is made."""
    begun = begin(tree, stages, python=python, room=room)
    closure, wheels = make_wheels(tree, stages, begun)
    return inspection.audit_wheels(stages, begun.matrix.audit, wheels, closure)


def begin(tree: Path, stages: Stages, *, python: str, room: str, to_claim: bool = True) -> Begun:
    """What the wheels of `python`'s cell are built with. Raises HostError for what is not there.

    Unless it is one `to_claim`, the cell may be one that is installed only.
    """
    matrix = read_matrix(tree)
    cells = matrix.cells
    cell = cells.for_python(python) if to_claim else cells.installed_with(python)
    declared = images.load(tree / "containers" / "images.toml")
    found = find_python(cell.python, declared)
    chosen = engine.choose(room)
    stages.progress(f"rooms: {chosen.note}")
    doctor.demand(chosen, declared)
    return Begun(matrix=matrix, cell=cell, python=found, engine=chosen, images=declared)


def make_wheels(tree: Path, stages: Stages, begun: Begun) -> tuple[Closure, tuple[Wheel, ...]]:
    """The wheels, and those of others that are installed with them."""
    constraints = tree / "matrix" / "constraints.txt"
    closure = wheelhouse.fetch(stages, begun.python, constraints)
    wheels = build.build_wheels(stages, tree, closure, begun.engine, begun.images, begun.python)
    check_cell(begun.cell, wheels, closure)
    return closure, wheels


def make_neighbours(
    tree: Path, stages: Stages, begun: Begun, closure: Closure, wheels: tuple[Wheel, ...]
) -> Releases:
    """The releases before and after that of `wheels`."""
    return neighbours.build_neighbours(
        stages, tree, wheels, closure, begun.engine, begun.images, begun.python
    )


def qualify(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    *,
    python: str,
    tier: str,
    room: str,
    today: datetime.date,
    at_once: int = AT_ONCE,
) -> Verdict:
    """Build, install and run what `tier` asks for on the cell of `python`, and decide.

    Gates run in `at_once` rooms side by side.
    """
    # Before the work: a wrong word or a damaged index costs no build.
    asked = read_matrix(tree).gates.tier(tier)
    index.require(evidence_folder)
    made = prepare(tree, evidence_folder, stages, python=python, room=room, even_denied=False)
    plan = plan_gates(
        tree,
        made.matrix.gates,
        asked,
        made.cell,
        made.wheels,
        made.closure,
        made.rooms,
        made.releases,
    )
    with Workers(at_once) as workers:
        for spec in made.rooms:
            theirs = [inputs for inputs in plan if inputs.room == spec]
            workers.submit(partial(run_gates, theirs, evidence_folder, stages, workers.run))
    return judge(evidence_folder, made, asked, made.cell, plan, today)


def run_gates(
    plan: list[Inputs], folder: Path, stages: Stages, run: Callable[[Inputs], Record]
) -> None:
    """The gates of one room, one after the other."""
    for inputs in plan:
        run_gate(inputs, folder, stages, run)


def judge(
    folder: Path,
    made: Prepared,
    tier: Tier,
    cell: Cell,
    plan: list[Inputs],
    today: datetime.date,
) -> Verdict:
    """The verdict that the evidence in `folder` gives on what was planned; it is kept there."""
    verdict = decide(
        policy=made.matrix.policy,
        gates=made.matrix.gates,
        question=Question(
            tier=tier.name,
            cell=cell,
            wheels=digests(made.wheels),
            asked=tuple(Asked(i.room.facts.name, i.gate.number, i.key) for i in plan),
        ),
        index=index.read(folder),
        records=evidence.read_all(folder),
        waivers=made.matrix.waivers.waivers,
        today=today,
        denials=made.denials,
    )
    write_verdict(folder, verdict)
    return verdict


def bench(
    tree: Path, evidence_folder: Path, stages: Stages, *, python: str, room: str, as_json: bool
) -> Completed:
    """Measure the figures of `bench/` in the first clean room, with the installed wheels."""
    made = prepare(tree, evidence_folder, stages, python=python, room=room, with_neighbours=False)
    with stages.announced("bench"), open_room(made.rooms[0]) as opened:
        installed = opened.install([wheel.path for wheel in made.wheels])
        if not installed.ok:
            return installed
        folder = opened.put(tree / "bench")
        words = [opened.python, f"{folder}/run.py", *(["--json"] if as_json else [])]
        return opened.run(words, timeout=BENCH_SECONDS)


def rebuild(tree: Path, stages: Stages, *, python: str, room: str) -> rebuilding.Report:
    """Build the wheels of `python`'s cell a second time, elsewhere, and compare the bytes."""
    begun = begin(tree, stages, python=python, room=room)
    closure, wheels = make_wheels(tree, stages, begun)
    return rebuilding.rebuild(
        stages, tree, closure, begun.engine, begun.images, begun.python, wheels
    )


def publish(tree: Path, stages: Stages, *, python: str, room: str) -> rebuilding.Report:
    """Build the wheels of `python`'s cell with cibuildwheel too, and compare the bytes."""
    begun = begin(tree, stages, python=python, room=room)
    cibuildwheel.ready(begun.engine)  # before the work
    closure, wheels = make_wheels(tree, stages, begun)
    return cibuildwheel.publish(stages, tree, closure, begun.engine, begun.images, wheels)


@contextmanager
def visited(tree: Path, made: Prepared, spec: RoomSpec) -> Iterator[tuple[Room, str]]:
    """A fresh room of `spec`, as a gate finds it; removed afterwards.

    Yields it with the folder in it that has the suites of `tree`, all of them.
    """
    with open_room(spec) as opened:
        installed = opened.install([wheel.path for wheel in made.wheels])
        if not installed.ok:
            said = (installed.stderr or installed.stdout).strip()
            raise RoomError(f"the wheels do not install: {said[-800:]}")
        opened.seal()
        if made.releases:
            here = [wheel.path for wheel in made.wheels]
            with owner.scratch(Path(tempfile.gettempdir()), gate.COPIES) as folder:
                opened.put(gate.lay_out(folder, here, made.releases))
        yield opened, opened.put(tree / "tests" / "gates")


def find_python(python: str, declared: images.Declaration) -> interpreter.Python:
    """The Python of this session if it is the one asked for, else the one on PATH, else what the
    system of a room has of its own."""
    path = sys.executable if python == OWN_PYTHON else shutil.which(f"python{python}")
    if path is not None:
        return interpreter.find(Path(path))
    if any(image.python == python for image in declared.room):
        return interpreter.RoomsOwn(minor=python)
    raise HostError(
        f"there is no Python {python}",
        expected=f"python{python} on PATH, or a room of containers/images.toml that has it",
        got=f"Python {OWN_PYTHON} only",
        mend=f"Install Python {python}; a missing interpreter is never skipped",
    )


def digests(wheels: tuple[Wheel, ...]) -> dict[str, str]:
    """File name to sha256, from the bytes as they are now."""
    found = {wheel.path.name: evidence.digest(wheel.path.read_bytes()) for wheel in wheels}
    for wheel in wheels:
        if found[wheel.path.name] != wheel.sha256:
            raise BuildError(
                f"{wheel.path} is not the wheel that was built",
                expected=wheel.sha256,
                got=found[wheel.path.name],
                mend="Remove it and build again",
            )
    return found


def check_cell(cell: Cell, wheels: tuple[Wheel, ...], closure: Closure) -> None:
    """The cell's versions are those of what was built and fetched."""
    built = {wheel.name: wheel.version for wheel in wheels}
    for what, expected, got in (
        ("driver", cell.driver, built.get("emu-driver-shim")),
        ("runtime", cell.runtime, built.get("emu-runtime")),
        ("plugin", cell.plugin, built.get("torch-emu")),
        ("torch", cell.torch, Version(closure.torch).base_version),
        ("python", cell.python, closure.python),
    ):
        if expected != got:
            raise InputError(
                f"cell {cell.id}: {what}",
                expected=f"{expected}, as matrix/cells.toml says",
                got=str(got),
                mend="Change the cell, or what is built",
            )


def plan_gates(
    tree: Path,
    gates: Gates,
    tier: Tier,
    cell: Cell,
    wheels: tuple[Wheel, ...],
    closure: Closure,
    specs: tuple[RoomSpec, ...],
    releases: Releases | None,
) -> list[Inputs]:
    """What is to be run: every gate of the tier that has a suite, in every room."""
    singles = {gate_of(check) for check in tier.checks}
    bytes_now = digests(wheels)
    return [
        Inputs(
            cell=cell,
            gate=of_tier,
            suite=gate.read_suite(tree / "tests" / "gates", of_tier),
            wheels=tuple(wheel.path for wheel in wheels),
            digests=bytes_now,
            closure=closure.sha256,
            room=spec,
            releases=releases if of_tier.neighbours else None,
        )
        for spec in specs
        for of_tier in gates.gates
        if of_tier.number in singles or (of_tier.number in tier.gates and of_tier.built)
    ]


def run_gate(
    inputs: Inputs, folder: Path, stages: Stages, run: Callable[[Inputs], Record] | None = None
) -> Output:
    """Run a gate and keep its record, unless the index has one of the same inputs.

    A gate that did not reach its end is run again: its fault may be gone.
    """
    name = f"gate {inputs.gate.number} in {inputs.room.facts.name}"
    start = time.monotonic()
    found = _find(folder, inputs.key)
    reused = found is not None
    if found is None:
        with stages.announced(name):
            made = (run or gate.run)(inputs)
            found = evidence.write(folder, made)
            index.append(
                folder,
                record=found,
                key=inputs.key,
                cell=inputs.cell.id,
                room=inputs.room.facts.name,
                gate=inputs.gate.number,
                now=made.predicate.finished,
            )
    output = Output(
        name=name,
        key=inputs.key,
        path=folder / "records" / f"{found}.json",
        seconds=time.monotonic() - start,
        reused=reused,
    )
    stages.timings.append(output)
    return output


def _find(folder: Path, key: str) -> str | None:
    """The digest of the last record of these inputs whose gate reached its end.

    A record that is not there, or damaged, is left to `decide` to refuse: to run the gate
    again would hide it.
    """
    for entry in reversed(index.read(folder).entries):
        if entry.key == key:
            path = folder / "records" / f"{entry.record}.json"
            try:
                predicate = evidence.decode(path.read_bytes()).predicate
            except (OSError, EvidenceError):
                return entry.record
            if predicate.ended:
                return entry.record
    return None


def write_verdict(folder: Path, verdict: Verdict) -> Path:
    """Keep a verdict under the digest of its bytes."""
    data = msgspec.json.encode(verdict, order="deterministic") + b"\n"
    path = folder / "verdicts" / f"{evidence.digest(data)}.json"
    evidence.write_whole(path, data)
    return path
