"""Gate 7 in every room that the matrix names: from a checkout to a verdict for each room.

As `qualify.pipeline` goes for a cell's own two rooms. A room that cannot be made hides no other.
"""

from __future__ import annotations

import datetime
import time
from functools import partial
from pathlib import Path

import msgspec

from qualify import index, installs, rooms
from qualify.errors import BuildError, EngineError, HostError, QualifyError, RoomError
from qualify.matrix import Tier
from qualify.pipeline import (
    Prepared,
    begin,
    judge,
    named_room,
    plan_gates,
    prepare_wheels,
    read_matrix,
    run_gate,
)
from qualify.room import RoomSpec
from qualify.stage import Stages
from qualify.workers import AT_ONCE, Workers

TOLD = (HostError, EngineError, RoomError)
"""What says of one room that nothing can be found out there, and nothing of the others."""


def install_everywhere(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    *,
    pythons: tuple[str, ...],
    room: str,
    today: datetime.date,
    at_once: int = AT_ONCE,
) -> installs.Report:
    """Gate 7 in each room that the matrix names for each Python; all of the matrix's if none.

    Wheels that the policy denies are refused, and installed nowhere. A room that cannot be made is
    told in the report, and so is a Python whose wheels cannot be had; the others are tried.
    The gate runs in `at_once` rooms side by side.
    """
    begun_at = time.monotonic()
    matrix = read_matrix(tree)
    cells = [matrix.cells.installed_with(python) for python in pythons]
    cells = cells or [*matrix.cells.cells, *matrix.cells.installed_only]
    index.require(evidence_folder)
    tier = installs.tier(matrix.gates)
    asked = msgspec.structs.replace(
        matrix, gates=msgspec.structs.replace(matrix.gates, tiers=(tier,))
    )
    started = []
    for cell in cells:  # before the work: a missing interpreter or an unknown room costs no build
        begun = begin(tree, stages, python=cell.python, room=room, to_claim=False)
        choice = rooms.choose_rooms(stages, begun.engine, begun.images, begun.python, fewest=1)
        installs.require(choice, begun.images, matrix.cells.rooms_of(cell))
        started.append((begun, choice))
    found = []
    for begun, choice in started:
        start = time.monotonic()
        try:
            made = prepare_wheels(tree, evidence_folder, stages, begun, choice)
        except (HostError, EngineError, BuildError) as error:
            stages.progress(f"Python {begun.cell.python}: {error}")
            seconds = time.monotonic() - start
            lost = installs.Installed(
                python=begun.cell.python, room="", verdict=None, seconds=seconds, trouble=str(error)
            )
            found.append(lost)
            continue
        made = msgspec.structs.replace(made, matrix=asked)
        if made.denials:
            refused = judge(evidence_folder, made, tier, made.cell, [], today)
            seconds = time.monotonic() - start
            found.append(
                installs.Installed(
                    python=made.cell.python, room="", verdict=refused, seconds=seconds
                )
            )
            continue
        found += install_in_rooms(tree, evidence_folder, stages, made, tier, today, at_once)
    return installs.Report(installed=tuple(found), seconds=time.monotonic() - begun_at)


def install_in_rooms(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    made: Prepared,
    tier: Tier,
    today: datetime.date,
    at_once: int,
) -> list[installs.Installed]:
    """What came of each room of a cell, in the order of the matrix. The next room's image is made
    while gates run in those before it."""
    names = made.matrix.cells.rooms_of(made.cell)
    found: dict[str, installs.Installed] = {}

    def lost(name: str, error: QualifyError, start: float) -> None:
        stages.progress(f"room {name}: {error}")
        found[name] = installs.Installed(
            python=made.cell.python,
            room=name,
            verdict=None,
            seconds=time.monotonic() - start,
            trouble=str(error),
        )

    def install_in(name: str, spec: RoomSpec, start: float) -> None:
        cell = installs.cell_of(made.cell, spec)
        gates, releases = made.matrix.gates, made.releases
        try:
            (inputs,) = plan = plan_gates(
                tree, gates, tier, cell, made.wheels, made.closure, (spec,), releases
            )
            done = run_gate(inputs, evidence_folder, stages, workers.run)
            verdict = judge(evidence_folder, made, tier, cell, plan, today)
        except TOLD as error:
            lost(name, error, start)
            return
        found[name] = installs.Installed(
            python=made.cell.python,
            room=name,
            verdict=verdict,
            seconds=time.monotonic() - start,
            reused=done.reused,
        )

    with Workers(at_once) as workers:
        for name in names:
            workers.wait_for_one()
            start = time.monotonic()
            try:
                spec = named_room(stages, made, name)
            except TOLD as error:
                lost(name, error, start)
                continue
            workers.submit(partial(install_in, name, spec, start))
    return [found[name] for name in names]
