"""Gate 7 in every room that the matrix names for a Python: systems, users, and what else is there.

A cell's own `images` are where it is qualified; the matrix has more rooms in which users install
the wheels. Each of them gets the gate's suite and a record, and a record of the same inputs
stands for a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from qualify import agreement, images, rooms
from qualify.build import PACKAGES, Wheel
from qualify.claim import Verdict
from qualify.container import Apart
from qualify.engine import RoomKind
from qualify.gate import Releases
from qualify.images import Declaration
from qualify.matrix import Cell, Gates, Tier
from qualify.room import RoomSpec
from qualify.rooms import Choice
from qualify.stage import Stages
from qualify.wheelhouse import Closure

GATE = 7
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
    devices: tuple[Apart, ...],
) -> Iterator[RoomSpec]:
    """The named rooms, one after the other; each image is made when its room's turn comes.

    Those whose devices are apart have `devices`.
    """
    for name in names:
        image, setting = images.named(declaration, name)
        yield rooms.room_of(stages, choice, image, setting, closure, hidden, devices)


def devices_of(wheels: tuple[Wheel, ...], releases: Releases) -> tuple[Apart, ...]:
    """A device by emud of each release: that of `wheels`, and those around it."""
    (here,) = (wheel for wheel in wheels if wheel.name == DRIVER)
    made = [Apart(driver=here.path, sha256=here.sha256)]
    for each in releases.neighbours:
        if parse_wheel_filename(each.name)[0] == DRIVER:
            (path,) = (w for w in releases.wheels[each.release] if w.name == each.name)
            made.append(Apart(driver=path, sha256=each.digest.sha256, release=each.release))
    return tuple(made)


def cell_of(cell: Cell, spec: RoomSpec) -> Cell:
    """The cell as it is in one room: of that room's system alone."""
    return msgspec.structs.replace(cell, images=(agreement.system(spec.facts),))


def tier(gates: Gates) -> Tier:
    """What is asked of one room: every check of the gate that the matrix knows."""
    named = {check for each in gates.tiers for check in each.checks if int(check[4]) == GATE}
    return Tier(
        name="installs",
        gates=(),
        checks=gates.gates[GATE].required or tuple(sorted(named)),
        obligations=(),
        rooms=1,
        distinct_os=1,
        room_kinds=(RoomKind.DOCKER, RoomKind.PODMAN),
    )
