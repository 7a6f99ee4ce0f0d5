"""Gate 7 in every room that the matrix names: from a checkout to a verdict for each room.

As `qualify.pipeline` goes for a cell's own two rooms. A room that cannot be made hides no other.
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import msgspec

from qualify import index, installs, rooms
from qualify.errors import BuildError, EngineError, HostError, RoomError
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
from qualify.stage import Stages


def install_everywhere(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    *,
    pythons: tuple[str, ...],
    room: str,
    today: datetime.date,
) -> installs.Report:
    """Gate 7 in each room that the matrix names for each Python; all of the matrix's if none.

    Wheels that the policy denies are refused, and installed nowhere. A room that cannot be made is
    told in the report, and so is a Python whose wheels cannot be had; the others are tried.
    """
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
        for name in matrix.cells.rooms_of(made.cell):
            found.append(install_in(tree, evidence_folder, stages, made, tier, name, today))
    return installs.Report(installed=tuple(found))


def install_in(
    tree: Path,
    evidence_folder: Path,
    stages: Stages,
    made: Prepared,
    tier: Tier,
    name: str,
    today: datetime.date,
) -> installs.Installed:
    """What `tier` asks for in the room called `name`, or why that could not be found out."""
    start = time.monotonic()
    try:
        spec = named_room(stages, made, name)
        cell = installs.cell_of(made.cell, spec)
        gates, releases = made.matrix.gates, made.releases
        (inputs,) = plan = plan_gates(
            tree, gates, tier, cell, made.wheels, made.closure, (spec,), releases
        )
        run_gate(inputs, evidence_folder, stages)
    except (HostError, EngineError, RoomError) as error:
        stages.progress(f"room {name}: {error}")
        seconds = time.monotonic() - start
        return installs.Installed(
            python=made.cell.python, room=name, verdict=None, seconds=seconds, trouble=str(error)
        )
    return installs.Installed(
        python=made.cell.python,
        room=name,
        verdict=judge(evidence_folder, made, tier, cell, plan, today),
        seconds=time.monotonic() - start,
        reused=stages.timings[-1].reused,
    )
