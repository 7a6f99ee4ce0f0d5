"""Gate 7 in every room that the matrix names for a Python: systems, users, and what else is there.

A cell's own `images` are where it is qualified; the matrix has more rooms in which users install
the wheels. Each of them gets the gate's suite and a record, and a record of the same inputs
stands for a run.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from qualify import agreement, images, rooms
from qualify.build import PACKAGES, Wheel
from qualify.claim import Verdict
from qualify.container import Apart
from qualify.engine import RoomKind
from qualify.errors import InputError
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
    """What came of one room. `seconds` is what this run took for it, its image included.

    Wheels that the policy denies are in no room: `room` is empty then, and the verdict says why.
    Where nothing could be found out there is no verdict, and `trouble` says why.
    """

    python: str
    room: str
    verdict: Verdict | None
    seconds: float
    reused: bool = False
    trouble: str = ""

    @property
    def claim(self) -> bool:
        return self.verdict is not None and self.verdict.claim


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds` is what the run took: less than its rooms together, where they are side by side."""

    installed: tuple[Installed, ...]
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return bool(self.installed) and all(each.claim for each in self.installed)


def require(choice: Choice, declaration: Declaration, names: tuple[str, ...]) -> None:
    """Before the work: InputError for a name that no room has, HostError for a room that this
    Python does not run in."""
    for name in names:
        rooms.require_able(choice, images.named(declaration, name)[0])


def spec_of(
    stages: Stages,
    choice: Choice,
    declaration: Declaration,
    name: str,
    closure: Closure,
    hidden: tuple[Path, ...],
    devices: tuple[Apart, ...],
) -> RoomSpec:
    """The room called `name`; its image is made if it is missing. It has `devices` if its setting
    has them apart."""
    image, setting = images.named(declaration, name)
    return rooms.room_of(stages, choice, image, setting, closure, hidden, devices)


def devices_of(wheels: tuple[Wheel, ...], releases: Releases | None) -> tuple[Apart, ...]:
    """A device by emud of each release: that of `wheels`, and those around it."""
    (here,) = (wheel for wheel in wheels if wheel.name == DRIVER)
    made = [Apart(driver=here.path, sha256=here.sha256)]
    if releases is None:
        return tuple(made)
    for each in releases.neighbours:
        if parse_wheel_filename(each.name)[0] == DRIVER:
            (path,) = (w for w in releases.wheels[each.release] if w.name == each.name)
            made.append(Apart(driver=path, sha256=each.digest.sha256, release=each.release))
    return tuple(made)


def cell_of(cell: Cell, spec: RoomSpec) -> Cell:
    """The cell as it is in one room: of that room's system alone.

    A room that is none of the cell's own makes it another cell, by its id too: its records are
    in the same index, and nobody who asks about the cell is told of them.
    """
    name = spec.facts.name
    id = cell.id if name in cell.images else f"{cell.id} in {name}"
    return msgspec.structs.replace(cell, id=id, images=(agreement.system(spec.facts),))


def tier(gates: Gates) -> Tier:
    """What is asked of one room: every check that the matrix requires of the gate."""
    required = gates.gates[GATE].required
    if not required:
        raise InputError(
            f"gate {GATE} requires no checks, so no install would show anything",
            expected="its checks, as `required` in matrix/gates.toml",
            got="none",
        )
    return Tier(
        name="installs",
        gates=(),
        checks=required,
        obligations=(),
        rooms=1,
        distinct_os=1,
        room_kinds=(RoomKind.DOCKER, RoomKind.PODMAN),
    )
