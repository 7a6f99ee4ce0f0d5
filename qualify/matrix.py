"""Reads matrix/*.toml into typed, frozen values.

Unknown keys are refused, and so is what types alone can't say: anything named twice, a tier
that asks for more operating systems than rooms, a check that its gate does not have, a gate
that is built and requires nothing. An error names the file, the line, the key, what was
expected and what was found.
"""

from __future__ import annotations

import datetime
import difflib
import enum
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import msgspec

from qualify.audit.policy import Audit
from qualify.engine import RoomKind
from qualify.errors import InputError
from qualify.outcome import StatementKind


def gate_of(check: str) -> int:
    """The number of the gate that a check belongs to, by its id."""
    return int(check[4])


def whole(pattern: str) -> msgspec.Meta:
    """The constraint of a text that is `pattern` from end to end.

    `$` alone holds before a last line break too, and the schema of records has these patterns in
    it, so they keep to what Python and JSON Schema read alike: no `\\Z`.
    """
    return msgspec.Meta(pattern=rf"^(?:{pattern})$(?!\n)")


CheckId = Annotated[str, whole(r"gate[0-7]\.[a-z0-9_]+\.[a-z0-9_]+")]
CheckPrefix = Annotated[str, whole(r"gate[0-7]\.[a-z0-9_.]*")]
ObligationId = Annotated[str, whole("[A-Z][0-9]+")]
PythonMinor = Annotated[str, whole(r"3\.[0-9]+")]
Configuration = Annotated[str, whole("[^/,]+/[^/,]+/[^/,]+")]
"""Of a device: stepping, firmware and power mode."""
RoomName = Annotated[str, whole(r"[a-z0-9._-]+(?:\+[a-z0-9._-]+)?")]
FolderName = Annotated[str, whole("[A-Za-z0-9_]+")]
"""Of a folder that lies in tests/gates: no path, which could lead out of it."""
GateNumber = Annotated[int, msgspec.Meta(ge=0, le=7)]
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""Something that can be read: white space alone says nothing."""

DAY = 86_400  # seconds
LAST_REVIEW = datetime.date(2100, 12, 31)
"""A waiver may be long, but one that no reader of it will see reviewed is a slip of a digit."""

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


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file that people write."""


class Cell(Strict, frozen=True, kw_only=True):
    """One exact combination of the support matrix.

    `configurations` are those of the device that gate 0 goes over; the other gates run on the
    device as it starts by itself, of which `stepping` and `firmware` are.
    """

    id: Text
    evidence: EvidenceKind
    device: Text
    stepping: Text
    firmware: Text
    driver: Text
    runtime: Text
    plugin: Text
    torch: Text
    python: PythonMinor
    images: tuple[Text, ...]
    architecture: Text
    configurations: tuple[Configuration, ...] = ()

    @property
    def without_images(self) -> Cell:
        """What shapes a gate in one room: the room itself says which image it is made of."""
        return msgspec.structs.replace(self, images=())


class Gate(Strict, frozen=True, kw_only=True):
    """One of the eight questions. `required` are the checks that its suite may not lose.

    A gate that is not built can't be asked for whole. It may have checks already, which a
    tier can name one by one; where it has `required`, they are all of them. Its suite gets the
    releases beside this one where it has `neighbours`.
    """

    number: GateNumber
    name: Text
    question: Text
    folder: FolderName
    built: bool
    layer: Layer
    timeout_seconds: Annotated[int, msgspec.Meta(gt=0, le=DAY)] = 1800
    required: tuple[CheckId, ...] = ()
    neighbours: bool = False


class Route(Strict, frozen=True, kw_only=True):
    """Checks whose id starts with `prefix` are about `layer`. The longest prefix wins."""

    prefix: CheckPrefix
    layer: Layer


class Tier(Strict, frozen=True, kw_only=True):
    """What a claim of one strength asks for.

    `gates` are asked for whole; `checks` are single checks of other gates. `rooms` is how
    many clean rooms have to agree, on how many distinct operating systems, of which kinds.
    """

    name: Text
    gates: tuple[GateNumber, ...]
    checks: tuple[CheckId, ...] = ()
    obligations: tuple[ObligationId, ...]
    rooms: Annotated[int, msgspec.Meta(ge=1)]
    distinct_os: Annotated[int, msgspec.Meta(ge=1)]
    room_kinds: Annotated[tuple[RoomKind, ...], msgspec.Meta(min_length=1)]


FoundOut = Literal["stepping", "firmware", "configurations", "driver", "architecture"]
FOUND_OUT = get_args(FoundOut)


class CellFact(Strict, frozen=True, kw_only=True):
    """A field of the cell that a required check finds out too, under the name `detail`. Of a field
    of several values the check's cases find all, and no other.

    Where the two differ, it is `layer` that can change it.
    """

    field: FoundOut
    check: CheckId
    detail: Text
    layer: Layer


class Gates(Strict, frozen=True, kw_only=True):
    """matrix/gates.toml: gates, where their failures go, tiers from weak to strong, and what
    of a cell is found out."""

    gates: tuple[Gate, ...]
    owners: dict[Layer, Text]
    routes: tuple[Route, ...]
    tiers: Annotated[tuple[Tier, ...], msgspec.Meta(min_length=1)]
    cell_facts: tuple[CellFact, ...]

    def __post_init__(self) -> None:
        numbers = [gate.number for gate in self.gates]
        if numbers != list(range(8)):
            raise wrong("gates", "the gates 0 to 7 in order", numbers)
        if missing := [layer.value for layer in Layer if layer not in self.owners]:
            raise wrong("owners", "an owner for each layer", f"none for {missing}")
        no_doubles("gates[{}].name", (gate.name for gate in self.gates))
        no_doubles("gates[{}].folder", (gate.folder for gate in self.gates))
        for gate in self.gates:
            key = f"gates[{gate.number}].required"
            if gate.built and not gate.required:
                key = f"gates[{gate.number}].built"
                raise wrong(key, "required checks, since the gate is built", "none")
            no_doubles(key + "[{}]", gate.required)
            for id in gate.required:
                if not id.startswith(f"gate{gate.number}."):
                    raise wrong(key, f"checks of gate {gate.number}", f"{id}, of another gate")
        no_doubles("routes[{}].prefix", (route.prefix for route in self.routes))
        no_doubles("tiers[{}].name", (tier.name for tier in self.tiers))
        for number, tier in enumerate(self.tiers):
            self._check_tier(f"tiers[{number}]", tier)
        fields, found = list(FOUND_OUT), sorted(fact.field for fact in self.cell_facts)
        if found != sorted(fields):
            raise wrong("cell_facts", f"one for each of {fields}", found)
        for number, fact in enumerate(self.cell_facts):
            if fact.check not in self.gates[gate_of(fact.check)].required:
                key = f"cell_facts[{number}].check"
                raise wrong(key, f"a required check that finds {fact.field}", fact.check)

    def _check_tier(self, key: str, tier: Tier) -> None:
        for field in ("gates", "checks", "obligations", "room_kinds"):
            no_doubles(f"{key}.{field}[{{}}]", getattr(tier, field))
        if not tier.gates and not tier.checks:
            raise wrong(f"{key}.gates", "gates or checks that the tier asks for", "none")
        for number, check in enumerate(tier.checks):
            self.require_known(f"{key}.checks[{number}]", check)
        if tier.distinct_os > tier.rooms:
            expected = f"at most {tier.rooms}, the tier's number of rooms"
            mend = "Ask for more rooms, or for fewer systems"
            raise wrong(f"{key}.distinct_os", expected, tier.distinct_os, mend)

    def require_known(self, key: str, check: str) -> None:
        """Raise ValidationError when `check`, named by `key`, is none of its gate's.

        Of a gate that requires none nobody has said yet which checks it has.
        """
        gate = self.gates[gate_of(check)]
        if gate.required and check not in gate.required:
            near = difflib.get_close_matches(check, gate.required, n=1)
            like = f", such as {near[0]}" if near else ""
            expected = f"a check that gate {gate.number} requires{like}"
            raise wrong(key, expected, check, "Mend its name, or list it in matrix/gates.toml")

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
        return self.gates[gate_of(check)].layer


class Waiver(Strict, frozen=True, kw_only=True):
    """An expected failure or skip that is accepted until its review date, that day included."""

    check: CheckId
    outcome: Literal["expected failure", "skipped"]
    owner: Text
    reason: Text
    issue: Text
    review: datetime.date


class Waivers(Strict, frozen=True, kw_only=True):
    """matrix/waivers.toml."""

    waivers: tuple[Waiver, ...] = ()

    def __post_init__(self) -> None:
        no_doubles("waivers[{}].check", (f"{w.outcome} of {w.check}" for w in self.waivers))
        for number, waiver in enumerate(self.waivers):
            if waiver.review > LAST_REVIEW:
                key = f"waivers[{number}].review"
                raise wrong(key, f"a day up to {LAST_REVIEW}", waiver.review)


def read_waivers(path: Path, gates: Gates) -> Waivers:
    """The waivers, each for a check that there is: one with a slip in it would waive nothing."""

    def judge(waivers: Waivers) -> None:
        for number, waiver in enumerate(waivers.waivers):
            gates.require_known(f"waivers[{number}].check", waiver.check)

    return load(path, Waivers, judge)


class Policy(Strict, frozen=True, kw_only=True):
    """matrix/policy.toml.

    `claim_kinds`: the kinds of statement that a claim may rest on. `trusted_keys`: ids of
    the keys that may sign an index; empty trusts the key that lies beside the index. `audit`:
    what wheels may hold.
    """

    claim_kinds: Annotated[tuple[StatementKind, ...], msgspec.Meta(min_length=1)]
    trusted_keys: tuple[Text, ...] = ()
    audit: Audit | None = None


class Cells(Strict, frozen=True, kw_only=True):
    """matrix/cells.toml.

    Nothing is claimed of those that are `installed_only`: gate 7 is run in their images, and they
    are no cells of the matrix. `installs`, by an id, are more rooms ("IMAGE" or "IMAGE+SETTING") in
    which the wheels are installed and gate 7 is run.
    """

    cells: Annotated[tuple[Cell, ...], msgspec.Meta(min_length=1)]
    installed_only: tuple[Cell, ...] = ()
    installs: dict[Text, tuple[RoomName, ...]] = {}

    def __post_init__(self) -> None:
        every = (*self.cells, *self.installed_only)
        places = [f"cells[{number}]" for number in range(len(self.cells))]
        places += [f"installed_only[{number}]" for number in range(len(self.installed_only))]
        no_doubles("cells[{}].id", (cell.id for cell in every))
        for place, cell in zip(places, every, strict=True):
            if not cell.images:
                raise wrong(f"{place}.images", "images of the cell's rooms", "none")
            no_doubles(f"{place}.images[{{}}]", cell.images)
            if not any(
                c.startswith(f"{cell.stepping}/{cell.firmware}/") for c in cell.configurations
            ):
                expected = f"one of {cell.stepping} with {cell.firmware}, the cell's own"
                got = ", ".join(cell.configurations) or "none"
                raise wrong(f"{place}.configurations", expected, got)
            no_doubles(f"{place}.configurations[{{}}]", cell.configurations)

        images = {cell.id: cell.images for cell in every}
        for id, more in self.installs.items():
            if id not in images:
                expected = f"a cell, one of {', '.join(images)}"
                raise wrong(f"installs.{id}", expected, "none of that id")
            no_doubles(f"installs.{id}[{{}}]", more)
            if again := sorted(set(more) & set(images[id])):
                raise wrong(f"installs.{id}", "rooms beside the cell's own images", again[0])

    def rooms_of(self, cell: Cell) -> tuple[str, ...]:
        """The cell's images, then the rooms that it is installed in beside them."""
        return (*cell.images, *self.installs.get(cell.id, ()))

    def for_python(self, python: str) -> Cell:
        """The one cell of a Python version such as "3.12"."""
        return self._of_python(python, self.cells)

    def installed_with(self, python: str) -> Cell:
        """The one that is installed with that Python, whether anything is claimed of it or not."""
        return self._of_python(python, (*self.cells, *self.installed_only))

    def _of_python(self, python: str, among: tuple[Cell, ...]) -> Cell:
        cells = [cell for cell in among if cell.python == python]
        if len(cells) != 1:
            known = ", ".join(sorted({cell.python for cell in among}))
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


def wrong(key: str, expected: str, got: object, mend: str = "") -> msgspec.ValidationError:
    """A contradiction at `key`, in the form in which msgspec tells a wrong type and its place."""
    then = f". {mend}" if mend else ""
    return msgspec.ValidationError(f"expected {expected}, got {got}{then} - at `$.{key}`")


def no_doubles(key: str, values: Iterable[object]) -> None:
    """Raise ValidationError for a value that was there before; `key` has `{}` for its place."""
    seen: dict[object, str] = {}
    for number, value in enumerate(values):
        here = key.format(number)
        if (first := seen.setdefault(value, here)) != here:
            said = value.value if isinstance(value, enum.Enum) else value
            got = f"{said}, which is {first} too"
            raise wrong(here, "each one once", got, "Take one of the two out")


def load(path: Path, type: type[_T], judge: Callable[[_T], None] = lambda value: None) -> _T:
    """One TOML file as a `type`. Raises InputError with the place in the file.

    `judge` raises ValidationError for what is wrong only beside other files.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    try:
        value = msgspec.toml.decode(text, type=type)
        judge(value)
        return value
    except msgspec.ValidationError as error:
        message, key = _split(str(error))
        line = _line(text, key, message)
        raise InputError(f"{path}:{line}: {key or 'top level'}: {message}") from error
    except msgspec.DecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError(f"{path}:{line}: not TOML: {error}") from error
    except (ValueError, RecursionError) as error:  # too long a number, too deep an array
        raise InputError(f"cannot read {path}: {error}") from error


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
