"""Gate 7 in every room that the matrix names for a Python: systems, users, and what else is there.

A cell's own `images` are where it is qualified; the matrix has more rooms in which users install
the wheels. Each of them gets the gate's suite and a record, and a record of the same inputs
stands for a run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import msgspec

from qualify import agreement, evidence, images, index, rooms
from qualify.build import PACKAGES, Wheel
from qualify.claim import Asked, Denial, Question, Verdict
from qualify.container import Apart
from qualify.engine import RoomKind
from qualify.gate import Inputs, Releases, Suite
from qualify.images import Declaration
from qualify.matrix import Cell, Gate, Gates, Policy, Tier, Waiver
from qualify.room import RoomSpec
from qualify.rooms import Choice
from qualify.stage import Stages
from qualify.verdict import decide
from qualify.wheelhouse import Closure

GATE = 7
TIER = "installs"
DRIVER = PACKAGES[0].name


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one room. `seconds` is what this run took for it, its image included."""

    python: str
    room: str
    verdict: Verdict
    seconds: float
    reused: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    installed: tuple[Installed, ...]

    @property
    def complete(self) -> bool:
        return bool(self.installed) and all(each.verdict.claim for each in self.installed)


def specs(
    stages: Stages,
    choice: Choice,
    declaration: Declaration,
    names: tuple[str, ...],
    closure: Closure,
    hidden: tuple[Path, ...],
    wheels: tuple[Wheel, ...],
) -> Iterator[RoomSpec]:
    """The named rooms, one after the other; each image is made when its room's turn comes."""
    (driver,) = (wheel for wheel in wheels if wheel.name == DRIVER)
    device = Apart(driver=driver.path, sha256=driver.sha256)
    for name in names:
        image, setting = images.named(declaration, name)
        yield rooms.room_of(stages, choice, image, setting, closure, hidden, device)


def inputs(
    cell: Cell,
    of: Gate,
    suite: Suite,
    wheels: dict[Path, str],
    closure: Closure,
    spec: RoomSpec,
    releases: Releases | None,
) -> Inputs:
    """The gate's inputs in one room. The cell is that of this room's system alone."""
    return Inputs(
        cell=msgspec.structs.replace(cell, images=(agreement.system(spec.facts),)),
        gate=of,
        suite=suite,
        wheels=tuple(wheels),
        digests={path.name: digest for path, digest in wheels.items()},
        closure=closure.sha256,
        room=spec,
        releases=releases if of.neighbours else None,
    )


def judge(
    folder: Path,
    policy: Policy,
    gates: Gates,
    asked: Inputs,
    waivers: tuple[Waiver, ...],
    denials: tuple[Denial, ...],
    today: datetime.date,
) -> Verdict:
    """Whether all checks of the gate passed in its room and no wheel is denied; runs nothing."""
    required = gates.gates[GATE].required
    named = {check for tier in gates.tiers for check in tier.checks if int(check[4]) == GATE}
    tier = Tier(
        name=TIER,
        gates=(),
        checks=required or tuple(sorted(named)),
        obligations=(),
        rooms=1,
        distinct_os=1,
        room_kinds=(RoomKind.DOCKER, RoomKind.PODMAN),
    )
    return decide(
        policy=policy,
        gates=msgspec.structs.replace(gates, tiers=(tier,)),
        question=Question(
            tier=TIER,
            cell=asked.cell,
            wheels=asked.digests,
            asked=(Asked(asked.room.facts.name, GATE, asked.key),),
        ),
        index=index.read(folder),
        records=evidence.read_all(folder),
        waivers=waivers,
        today=today,
        denials=denials,
    )
