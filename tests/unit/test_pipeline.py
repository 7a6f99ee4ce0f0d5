"""Stages that the pipeline decides itself: what is planned, what is run again, what must agree."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from samples import CELL, GATES, TODAY, check, events, jsonl, make_record, room
from test_gate import inputs, releases

from qualify import evidence, gate, images, index, installs, pipeline
from qualify.build import Wheel
from qualify.errors import BuildError, EvidenceError, HostError, InputError
from qualify.evidence import Record
from qualify.gate import Inputs
from qualify.interpreter import Interpreter, RoomsOwn
from qualify.stage import Stages
from qualify.wheelhouse import Closure

TREE = Path(__file__).parents[2]


class Runs:
    """Counts what `gate.run` is asked to run, and answers with a record of these events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.lines = events(check("gate0.a.one"))
        monkeypatch.setattr(gate, "run", self)

    def __call__(self, given: Inputs) -> Record:
        self.count += 1
        return make_record(jsonl(self.lines), key=given.key, wheels=given.digests)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


@pytest.fixture
def stages(tmp_path: Path) -> Stages:
    return Stages(tmp_path / "cache")


@pytest.fixture
def given(tmp_path: Path) -> Inputs:
    (tmp_path / "gate0_health").mkdir()
    (tmp_path / "gate0_health" / "test_a.py").write_text("")
    return inputs(tmp_path)


def test_a_gate_is_run_once(tmp_path: Path, runs: Runs, stages: Stages, given: Inputs) -> None:
    for _ in range(3):
        pipeline.run_gate(given, tmp_path / "evidence", stages)
    assert runs.count == 1
    assert [output.reused for output in stages.timings] == [False, True, True]
    assert len(index.read(tmp_path / "evidence").entries) == 1
    assert stages.timings[0].path.is_file()
    pipeline.run_gate(
        msgspec.structs.replace(given, closure="other"), tmp_path / "evidence", stages
    )
    assert runs.count == 2


def test_a_room_that_the_cell_and_the_install_matrix_share_is_run_once(
    tmp_path: Path, runs: Runs, stages: Stages, given: Inputs
) -> None:
    shared = msgspec.structs.replace(given, cell=installs.cell_of(CELL, given.room))
    assert shared.cell != given.cell, "one is of both images"
    facts = msgspec.structs.replace(given.room.facts, name="debian12+root")
    root = msgspec.structs.replace(given.room, facts=facts)
    other = msgspec.structs.replace(given, room=root, cell=installs.cell_of(CELL, root))
    for each in (given, shared, other):
        pipeline.run_gate(each, tmp_path / "evidence", stages)
    assert [output.reused for output in stages.timings] == [False, True, False]
    entries = index.read(tmp_path / "evidence").entries
    assert [entry.cell for entry in entries] == [CELL.id, f"{CELL.id} in debian12+root"]


def test_a_failed_gate_is_not_run_until_it_passes(
    tmp_path: Path, runs: Runs, stages: Stages, given: Inputs
) -> None:
    runs.lines = events(check("gate0.a.one", "failed"), end=1)
    for _ in range(2):
        pipeline.run_gate(given, tmp_path / "evidence", stages)
    assert runs.count == 1


def test_a_gate_that_was_cut_short_is_run_again(
    tmp_path: Path, runs: Runs, stages: Stages, given: Inputs
) -> None:
    runs.lines = events(check("gate0.a.one", ""), end=None)
    pipeline.run_gate(given, tmp_path / "evidence", stages)
    runs.lines = events(check("gate0.a.one"))
    for _ in range(2):
        pipeline.run_gate(given, tmp_path / "evidence", stages)
    assert runs.count == 2


@pytest.mark.parametrize("damage", ["remove", "edit"])
def test_a_damaged_record_is_not_hidden_by_running_again(
    tmp_path: Path, runs: Runs, stages: Stages, given: Inputs, damage: str
) -> None:
    pipeline.run_gate(given, tmp_path / "evidence", stages)
    (path,) = (tmp_path / "evidence" / "records").iterdir()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(b"{}")
    pipeline.run_gate(given, tmp_path / "evidence", stages)
    assert runs.count == 1


def wheel(folder: Path, name: str, version: str = "0.1.0") -> Wheel:
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    path.write_bytes(name.encode())
    digest = evidence.digest(name.encode())
    return Wheel(path=path, sha256=digest, name=name, version=version)


def closure(**changes: str) -> Closure:
    made = Closure(folder=Path(), python="3.11", sha256="c", torch="2.13.0+cpu", torch_wheel=Path())
    return msgspec.structs.replace(made, **changes)


def test_a_wheel_that_was_swapped_after_its_build_is_refused(tmp_path: Path) -> None:
    made = wheel(tmp_path, "torch-emu")
    assert pipeline.digests((made,)) == {made.path.name: made.sha256}
    made.path.write_bytes(b"other")
    with pytest.raises(BuildError, match="not the wheel that was built"):
        pipeline.digests((made,))


def test_a_cell_is_what_was_built(tmp_path: Path) -> None:
    names = ("emu-driver-shim", "emu-runtime", "torch-emu")
    wheels = tuple(wheel(tmp_path, name) for name in names)
    pipeline.check_cell(CELL, wheels, closure())
    with pytest.raises(InputError, match=r"torch: expected 2.13.0, .*, got 2.14.1"):
        pipeline.check_cell(CELL, wheels, closure(torch="2.14.1"))
    with pytest.raises(InputError, match=r"plugin: expected 0.1.0, .*, got 0.2.0"):
        newer = (*wheels[:2], wheel(tmp_path, "torch-emu", "0.2.0"))
        pipeline.check_cell(CELL, newer, closure())
    with pytest.raises(InputError, match=r"driver: expected 0.1.0, .*, got None"):
        pipeline.check_cell(CELL, wheels[1:], closure())


def test_what_is_planned(tmp_path: Path) -> None:
    for of in GATES.gates:
        (tmp_path / "tests" / "gates" / of.folder).mkdir(parents=True)
    wheels = (wheel(tmp_path, "torch-emu"),)
    specs = tuple(
        msgspec.structs.replace(inputs(tmp_path / "tests" / "gates").room, facts=room(name))
        for name in ("debian12", "debian13")
    )
    neighbours = releases(tmp_path, "a")
    comparing = [msgspec.structs.replace(g, neighbours=g.number == 7) for g in GATES.gates]
    gates = msgspec.structs.replace(GATES, gates=tuple(comparing))
    for tier, numbers in (("experimental", [0, 1, 7]), ("release", [0, 1])):
        asked = GATES.tier(tier)
        plan = pipeline.plan_gates(
            tmp_path, gates, asked, CELL, wheels, closure(), specs, neighbours
        )
        found = [(made.room.facts.name, made.gate.number) for made in plan]
        assert found == [(name, gate) for name in ("debian12", "debian13") for gate in numbers]
        given = {made.gate.number for made in plan if made.releases is neighbours}
        assert given == {7} & set(numbers), "those that compare releases get them"


def test_a_damaged_index_is_told_before_any_work(tmp_path: Path, stages: Stages) -> None:
    folder = tmp_path / "evidence"
    index.require(folder)
    (folder / index.LINES).write_text("junk")
    with pytest.raises(EvidenceError, match="the index has no head"):
        pipeline.qualify(
            Path(__file__).parents[2],
            folder,
            stages,
            python="3.99",  # where it goes on, this is what it meets first
            tier="experimental",
            room="auto",
            today=TODAY,
        )
    assert stages.timings == []


def test_a_missing_interpreter_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    declared = images.load(TREE / "containers" / "images.toml")
    with pytest.raises(HostError, match=r"there is no Python 3.99: expected python3.99 on PATH"):
        pipeline.find_python("3.99", declared)


def test_a_python_that_only_rooms_have_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = images.load(TREE / "containers" / "images.toml")
    own = pipeline.find_python(pipeline.OWN_PYTHON, declared)
    assert isinstance(own, Interpreter), "this machine's comes first"
    monkeypatch.setenv("PATH", "")
    room = msgspec.structs.replace(declared.room[0], python="3.99")
    declared = msgspec.structs.replace(declared, room=(room, *declared.room[1:]))
    assert pipeline.find_python("3.99", declared) == RoomsOwn(minor="3.99")


def test_a_verdict_is_kept_under_its_digest(tmp_path: Path) -> None:
    from samples import World

    verdict = World(tmp_path).fill().decide()
    path = pipeline.write_verdict(tmp_path, verdict)
    assert path.stem == evidence.digest(path.read_bytes())


def test_a_published_build_without_an_engine_builds_nothing_first(
    monkeypatch: pytest.MonkeyPatch, stages: Stages
) -> None:
    built: list[str] = []
    monkeypatch.setattr(pipeline, "make_wheels", lambda *rest: built.append("wheels"))
    with pytest.raises(HostError, match="cibuildwheel builds in containers"):
        pipeline.publish(TREE, stages, python=pipeline.OWN_PYTHON, room="plain")
    assert built == []
