"""Reads matrix/*.toml into typed, frozen values.

Unknown keys are refused, and so is what types alone can't say: a tier that names a gate
that is not there, two waivers for one thing, a gate that is built and requires nothing.
An error names the file, the line, the key, what was expected and what was found.
"""

from __future__ import annotations

import datetime
import enum
import re
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import msgspec

from qualify.engine import RoomKind
from qualify.errors import InputError
from qualify.outcome import StatementKind

CheckId = Annotated[str, msgspec.Meta(pattern=r"^gate[0-7]\.[a-z0-9_]+\.[a-z0-9_]+$")]
GateNumber = Annotated[int, msgspec.Meta(ge=0, le=7)]
Text = Annotated[str, msgspec.Meta(min_length=1)]

_T = TypeVar("_T")


class Layer(enum.Enum):
    """Where a reason for a refusal can be changed."""

    HARDWARE = "hardware"
    FIRMWARE = "firmware"
    DRIVER = "driver"
    RUNTIME = "runtime"
    PLUGIN = "plugin"
    PACKAGE = "package"
    PIPELINE = "pipeline"
    EVIDENCE = "evidence"


class EvidenceKind(enum.Enum):
    """What a record was made on. The first never satisfies a claim about the second."""

    EMULATED = "emulated"
    HARDWARE = "hardware"


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Cell(_Strict, frozen=True, kw_only=True):
    """One exact combination of the support matrix."""

    id: Text
    evidence: EvidenceKind
    device: Text
    stepping: Text
    firmware: Text
    driver: Text
    runtime: Text
    plugin: Text
    torch: Text
    python: Annotated[str, msgspec.Meta(pattern=r"^3\.\d+$")]
    images: tuple[Text, ...]
    architecture: Text


class Gate(_Strict, frozen=True, kw_only=True):
    """One of the eight questions. `required` are the checks that its suite may not lose.

    A gate that is not built can't be asked for whole. It may have checks already, which a
    tier can name one by one.
    """

    number: GateNumber
    name: Text
    question: Text
    folder: Text
    built: bool
    layer: Layer
    timeout_seconds: Annotated[int, msgspec.Meta(gt=0)] = 1800
    required: tuple[CheckId, ...] = ()


class Route(_Strict, frozen=True, kw_only=True):
    """Checks whose id starts with `prefix` are about `layer`. The longest prefix wins."""

    prefix: Text
    layer: Layer


class Tier(_Strict, frozen=True, kw_only=True):
    """What a claim of one strength asks for.

    `gates` are asked for whole; `checks` are single checks of other gates. `rooms` is how
    many clean rooms have to agree, on how many distinct operating systems, of which kinds.
    """

    name: Text
    gates: tuple[GateNumber, ...]
    checks: tuple[CheckId, ...] = ()
    obligations: tuple[Text, ...]
    rooms: Annotated[int, msgspec.Meta(ge=1)]
    distinct_os: Annotated[int, msgspec.Meta(ge=1)]
    room_kinds: Annotated[tuple[RoomKind, ...], msgspec.Meta(min_length=1)]


FoundOut = Literal["stepping", "firmware", "driver", "architecture"]
FOUND_OUT = get_args(FoundOut)


class CellFact(_Strict, frozen=True, kw_only=True):
    """A field of the cell that a required check finds out too, under the name `detail`.

    Where the two differ, it is `layer` that can change it.
    """

    field: FoundOut
    check: CheckId
    detail: Text
    layer: Layer


class Gates(_Strict, frozen=True, kw_only=True):
    """matrix/gates.toml: gates, where their failures go, tiers from weak to strong, and what
    of a cell is found out."""

    gates: tuple[Gate, ...]
    owners: dict[Layer, Text]
    routes: tuple[Route, ...]
    tiers: tuple[Tier, ...]
    cell_facts: tuple[CellFact, ...]

    def __post_init__(self) -> None:
        numbers = [gate.number for gate in self.gates]
        if numbers != list(range(8)):
            raise ValueError(f"expected the gates 0 to 7 in order, got {numbers}")
        if missing := [layer.value for layer in Layer if layer not in self.owners]:
            raise ValueError(f"expected an owner for each layer, got none for {missing}")
        for gate in self.gates:
            if gate.built and not gate.required:
                raise ValueError(f"gate {gate.number} is built: expected required checks, got none")
            for id in gate.required:
                if not id.startswith(f"gate{gate.number}."):
                    raise ValueError(f"gate {gate.number} requires {id}, a check of another gate")
        fields, found = list(FOUND_OUT), sorted(fact.field for fact in self.cell_facts)
        if found != sorted(fields):
            raise ValueError(f"expected one of cell_facts for each of {fields}, got {found}")
        for fact in self.cell_facts:
            if fact.check not in self.gates[int(fact.check[4])].required:
                raise ValueError(
                    f"{fact.field} is found by {fact.check}: expected a required check"
                )

    def tier(self, name: str) -> Tier:
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise InputError(
            f"unknown tier {name!r}", expected=", ".join(t.name for t in self.tiers), got=name
        )

    def layer(self, check: str) -> Layer:
        """The layer of a check: that of the longest matching route, else of its gate."""
        routes = [route for route in self.routes if check.startswith(route.prefix)]
        if routes:
            return max(routes, key=lambda route: len(route.prefix)).layer
        return self.gates[int(check[4])].layer


class Waiver(_Strict, frozen=True, kw_only=True):
    """An expected failure or skip that is accepted until its review date, that day included."""

    check: CheckId
    outcome: Literal["expected failure", "skipped"]
    owner: Text
    reason: Text
    issue: Text
    review: datetime.date


class Waivers(_Strict, frozen=True, kw_only=True):
    """matrix/waivers.toml."""

    waivers: tuple[Waiver, ...] = ()

    def __post_init__(self) -> None:
        seen = [(waiver.check, waiver.outcome) for waiver in self.waivers]
        if twice := {what for what in seen if seen.count(what) > 1}:
            raise ValueError(f"expected one waiver a check and outcome, got two for {twice}")


class Policy(_Strict, frozen=True, kw_only=True):
    """matrix/policy.toml.

    `claim_kinds`: the kinds of statement that a claim may rest on. `trusted_keys`: ids of
    the keys that may sign an index; empty trusts the key that lies beside the index.
    """

    claim_kinds: Annotated[tuple[StatementKind, ...], msgspec.Meta(min_length=1)]
    trusted_keys: tuple[Text, ...] = ()


class Cells(_Strict, frozen=True, kw_only=True):
    """matrix/cells.toml."""

    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        ids = [cell.id for cell in self.cells]
        if len(set(ids)) != len(ids):
            raise ValueError(f"expected cells with ids of their own, got {ids}")
        if without := [cell.id for cell in self.cells if not cell.images]:
            raise ValueError(f"expected images for each cell, got none for {without}")

    def for_python(self, python: str) -> Cell:
        """The one cell of a Python version such as "3.12"."""
        cells = [cell for cell in self.cells if cell.python == python]
        if len(cells) != 1:
            known = ", ".join(sorted({cell.python for cell in self.cells}))
            raise InputError(
                f"no single cell for Python {python!r}",
                expected=f"one of {known}",
                got=f"{len(cells)} cells",
                mend="Name a Python that matrix/cells.toml has, or add its cell",
            )
        return cells[0]

    def by_id(self, id: str) -> Cell:
        for cell in self.cells:
            if cell.id == id:
                return cell
        raise InputError(
            f"unknown cell {id!r}", expected=", ".join(cell.id for cell in self.cells), got=id
        )


def load(path: Path, type: type[_T]) -> _T:
    """One TOML file as a `type`. Raises InputError with the place in the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    try:
        return msgspec.toml.decode(text, type=type)
    except msgspec.ValidationError as error:
        message, key = _split(str(error))
        line = _line(text, key, message)
        raise InputError(f"{path}:{line}: {key or 'top level'}: {message}") from error
    except msgspec.DecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError(f"{path}:{line}: not TOML: {error}") from error


def _split(message: str) -> tuple[str, str]:
    """msgspec's "Expected `int`, got `str` - at `$.gates[0].number`" as message and key path."""
    text, _, place = message.partition(" - at `")
    path = place.removeprefix("key` in `").rstrip("`")
    return text, path.removeprefix("$").removeprefix(".")


def _line(text: str, key: str, message: str) -> int:
    """The line that sets `key`, or as near before it as can be told, 1 being the first."""
    wanted = re.findall(r"[^.\[\]]+|\[\d+\]", key)
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown:
        wanted.append(unknown[1])
    tables: dict[str, int] = {}
    table: list[str] = []
    best, depth = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if header := re.match(r"\[(\[?)\s*([\w.\"-]+)\s*\]", line):
            table = header[2].replace('"', "").split(".")
            if header[1]:
                count = tables[header[2]] = tables.get(header[2], -1) + 1
                table.append(f"[{count}]")
            here = table
        elif assigned := re.match(r"[\w\"-]+(?=\s*=)", line):
            here = [*table, assigned[0].strip('"')]
        else:
            continue
        if here == wanted[: len(here)] and len(here) > depth:
            best, depth = number, len(here)
    return best
