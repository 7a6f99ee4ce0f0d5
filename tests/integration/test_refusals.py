"""Break it, and see it refuse: tiny gates in real rooms, judged from their real records."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import os
import shutil
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from qualify import (
    engine,
    evidence,
    gate,
    images,
    index,
    interpreter,
    owner,
    pipeline,
    rooms,
    wheelhouse,
)
from qualify.claim import Asked, Question, Verdict
from qualify.container import OWNER_LABEL
from qualify.engine import RoomKind
from qualify.errors import EngineError
from qualify.gate import Inputs
from qualify.matrix import Cells, Gates, Layer, load
from qualify.process import run
from qualify.room import RoomSpec
from qualify.stage import Stages, cache_root
from qualify.verdict import decide
from qualify.workers import Workers

TREE = Path(__file__).parents[2]
TIER = """
[[tiers]]
name = "tiny"
gates = [0]
obligations = ["B1"]
rooms = 1
distinct_os = 1
room_kinds = ["docker", "podman", "sandbox", "plain"]
"""
SUITE = """
import os, pathlib, platform, time
import pytest
def check(id): return pytest.mark.check(id, obligations=["B1"], kind="focused test")
@check("gate0.a.one")
def test_one(detail):
    import sample_of_a_wheel
    detail(machine=platform.machine(), **{said})
@check("gate0.a.two")
def test_two():
    {two}
@check("gate0.a.three")
def test_three(): pass
"""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def stages() -> Stages:
    return Stages(cache_root(TREE), progress=lambda line: print(line, file=sys.stderr))


def prepare(stages: Stages, kind: str) -> RoomSpec:
    """The first room of this Python, with the real closure of torch."""
    try:
        chosen = engine.choose(kind)
    except EngineError as error:
        pytest.skip(str(error))
    found = interpreter.find()
    declared = images.load(TREE / "containers" / "images.toml")
    choice = rooms.choose_rooms(stages, chosen, declared, found)
    closure = wheelhouse.fetch(stages, found, TREE / "matrix" / "constraints.txt")
    return rooms.prepare_rooms(stages, choice, closure, (TREE,))[0]


@pytest.fixture(scope="session", params=["docker", "sandbox"])
def spec(request: pytest.FixtureRequest, stages: Stages) -> RoomSpec:
    return prepare(stages, request.param)


@pytest.fixture(scope="session")
def container(stages: Stages) -> RoomSpec:
    return prepare(stages, "docker")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small pure wheel, by hand."""
    path = tmp_path_factory.mktemp("wheel") / "sample_of_a_wheel-1.0-py3-none-any.whl"
    info = "sample_of_a_wheel-1.0.dist-info"
    files = {
        "sample_of_a_wheel.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: sample-of-a-wheel\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{info}/RECORD,,"]
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(text)}")
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": "\n".join(lines) + "\n"}.items():
            archive.writestr(name, text)
    return path


class Lab:
    """One tiny gate, its evidence, and the verdict on it."""

    def __init__(self, folder: Path, stages: Stages, wheel: Path) -> None:
        self.folder, self.stages, self.wheel = folder, stages, wheel
        self.evidence = folder / "evidence"
        self.suites = folder / "suites"
        (self.suites / "gate0_health").mkdir(parents=True, exist_ok=True)
        for name in ("conftest.py", "pytest.ini"):
            shutil.copy(TREE / "tests" / "gates" / name, self.suites)
        gates_and_tiers, found = (TREE / "matrix" / "gates.toml").read_text().split("# What a cell")
        text = gates_and_tiers.split("[[tiers]]")[0] + TIER + "# What a cell" + found
        (folder / "gates.toml").write_text(text)
        gates = load(folder / "gates.toml", Gates)
        health = msgspec.structs.replace(gates.gates[0], required=("gate0.a.one",))
        facts = tuple(
            msgspec.structs.replace(fact, check="gate0.a.one") for fact in gates.cell_facts
        )
        self.gates = msgspec.structs.replace(
            gates, gates=(health, *gates.gates[1:]), cell_facts=facts
        )
        cells = load(TREE / "matrix" / "cells.toml", Cells)
        cell = cells.for_python(pipeline.OWN_PYTHON)
        self.cell = msgspec.structs.replace(cell, configurations=cell.configurations[:1])
        self.images: tuple[str, ...] = ()  # those of the rooms, unless a test says others
        self.asked: list[Asked] = []

    def suite(self, two: str = "pass", text: str | None = None) -> None:
        path = self.suites / "gate0_health" / "test_health.py"
        said = {name: getattr(self.cell, name) for name in ("stepping", "firmware", "driver")}
        said["configuration"] = self.cell.configurations[0]
        path.write_text(SUITE.format(two=two, said=said) if text is None else text)

    def inputs(self, spec: RoomSpec) -> Inputs:
        health = self.gates.gates[0]
        return Inputs(
            cell=self.cell,
            gate=health,
            suite=gate.read_suite(self.suites, health),
            wheels=(self.wheel,),
            digests=self.digests(),
            closure="c" * 64,
            room=spec,
        )

    def run(self, spec: RoomSpec) -> Verdict:
        images = self.images or (f"{spec.facts.os_id}{spec.facts.os_version}",)
        self.cell = msgspec.structs.replace(self.cell, images=images)
        inputs = self.inputs(spec)
        with Workers(1) as workers:
            one = partial(pipeline.run_gate, inputs, self.evidence, self.stages, run=workers.run)
            workers.submit(one)
        self.asked = [Asked(spec.facts.name, 0, inputs.key)]
        return self.decide()

    def decide(self, wheels: dict[str, str] | None = None) -> Verdict:
        question = Question(
            tier="tiny", cell=self.cell, wheels=wheels or self.digests(), asked=tuple(self.asked)
        )
        matrix = pipeline.read_matrix(TREE)
        return decide(
            policy=matrix.policy,
            gates=self.gates,
            question=question,
            index=index.read(self.evidence),
            records=evidence.read_all(self.evidence),
            waivers=(),
            today=datetime.date(2026, 1, 1),
        )

    def digests(self) -> dict[str, str]:
        return {self.wheel.name: evidence.digest(self.wheel.read_bytes())}


@pytest.fixture
def lab(tmp_path: Path, stages: Stages, wheel: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, stages, wheel)
    made.suite()
    yield made


def reasons(verdict: Verdict) -> set[tuple[str, Layer, str]]:
    assert not verdict.claim
    return {(reason.check, reason.layer, reason.what) for reason in verdict.reasons}


def test_a_good_gate_is_a_claim_and_is_not_run_again(lab: Lab, spec: RoomSpec) -> None:
    verdict = lab.run(spec)
    assert verdict.reasons == ()
    assert verdict.claim
    assert (verdict.rows[0].planned, verdict.rows[0].passed) == (3, 3)
    assert lab.run(spec) == verdict
    assert [output.reused for output in lab.stages.timings[-2:]] == [False, True]


def test_a_gate_that_crashes_half_way(lab: Lab, spec: RoomSpec) -> None:
    lab.suite("os.kill(os.getpid(), 11)")
    found = reasons(lab.run(spec))
    assert {(check, layer) for check, layer, _ in found} == {
        ("", Layer.PIPELINE),
        ("gate0.a.two", Layer.DRIVER),
        ("gate0.a.three", Layer.DRIVER),
    }
    assert any("ended with status -11 before its end" in what for _, _, what in found)


def test_a_gate_that_plans_no_checks(lab: Lab, spec: RoomSpec) -> None:
    lab.suite(text="")
    assert ("", Layer.PIPELINE, "the gate planned no checks") in reasons(lab.run(spec))


def test_a_skipped_check(lab: Lab, spec: RoomSpec) -> None:
    lab.suite("pytest.skip('no time')")
    ((check, layer, what),) = reasons(lab.run(spec))
    assert (check, layer) == ("gate0.a.two", Layer.DRIVER)
    assert what == "skipped: Skipped: no time"


def test_a_cell_of_another_machine(lab: Lab, spec: RoomSpec) -> None:
    lab.cell = msgspec.structs.replace(lab.cell, architecture="riscv64")
    ((check, layer, what),) = reasons(lab.run(spec))
    assert (check, layer) == ("gate0.a.one", Layer.PIPELINE)
    assert "architecture: expected riscv64, got " in what


def test_a_cell_of_another_image(lab: Lab, container: RoomSpec) -> None:
    lab.images = ("ubuntu24.04",)
    ((_, layer, what),) = reasons(lab.run(container))
    assert layer is Layer.PIPELINE
    assert "images: expected ubuntu24.04, got debian1" in what


def test_a_gate_that_does_not_end(lab: Lab, spec: RoomSpec) -> None:
    lab.suite("time.sleep(600)")
    short = msgspec.structs.replace(lab.gates.gates[0], timeout_seconds=15)
    lab.gates = msgspec.structs.replace(lab.gates, gates=(short, *lab.gates.gates[1:]))
    found = reasons(lab.run(spec))
    assert ("", Layer.PIPELINE, "the gate did not end in 15 s") in found
    assert "gate0.a.two" in {check for check, _, _ in found}


def test_a_full_disk_in_the_room(lab: Lab, spec: RoomSpec) -> None:
    lab.suite("pathlib.Path('big').write_bytes(bytes(64 * 2**20))")
    small = msgspec.structs.replace(spec, work_bytes=16 * 2**20)
    found = reasons(lab.run(small))
    assert ("", Layer.PIPELINE, "the disk of the room is full") in found


def test_wheels_that_do_not_install(lab: Lab, spec: RoomSpec, tmp_path: Path) -> None:
    lab.wheel = tmp_path / "sample_of_a_wheel-1.0-py3-none-any.whl"
    lab.wheel.write_bytes(b"not a zip file")
    ((_, layer, what),) = reasons(lab.run(spec))
    assert layer is Layer.PACKAGE
    assert "the wheels do not install" in what


def owners_of_ours() -> set[str]:
    """What the things of our own child processes are labelled with."""
    tasks = [task / "children" for task in Path("/proc/self/task").iterdir()]
    return {owner.of(int(pid)).text() for task in tasks for pid in task.read_text().split()}


def test_a_killed_room(lab: Lab, container: RoomSpec) -> None:
    lab.suite("pathlib.Path('/tmp/started').touch(); time.sleep(300)")
    client = container.engine.client()
    killed = threading.Event()

    def kill() -> None:
        while not killed.is_set():
            label = {"label": OWNER_LABEL}
            for made in client.containers.list(filters=label, ignore_removed=True):
                if made.labels[OWNER_LABEL] not in owners_of_ours():
                    continue
                if made.exec_run(["test", "-e", "/tmp/started"]).exit_code == 0:
                    killed.set()
                    made.kill()
            time.sleep(0.1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = reasons(lab.run(container))
        assert killed.is_set()
    finally:
        killed.set()
        killer.join()
        client.close()
    ((check, layer, what),) = found
    assert (check, layer) == ("", Layer.PIPELINE)
    assert "the container ended with status 137" in what
    lab.suite()  # the next run goes on: a room of its own, a record of its own
    assert lab.run(container).claim


INTERRUPTED = """
import os, pathlib, signal, sys
sys.path.insert(0, {here!r})
import test_refusals as here
from qualify import cli
from qualify.stage import Stages, cache_root

def progress(line):  # the gate has been running for a while
    if line.startswith("gate 0 ") and line.endswith(" s") and "done" not in line:
        os.kill(os.getpid(), {number})

@cli.app.command()
def interrupted():
    stages = Stages(cache_root(here.TREE), progress=progress)
    lab = here.Lab(pathlib.Path({folder!r}), stages, pathlib.Path({wheel!r}))
    lab.run(here.prepare(stages, {kind!r}))

sys.argv[1:] = ["interrupted"]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_gate_leaves_nothing_and_the_next_run_goes_on(
    lab: Lab, spec: RoomSpec, number: signal.Signals
) -> None:
    lab.suite("time.sleep(300)")
    code = INTERRUPTED.format(
        here=str(Path(__file__).parent),
        folder=str(lab.folder),
        wheel=str(lab.wheel),
        kind=spec.engine.kind.value,
        number=int(number),
    )
    temporary = lab.folder / "tmp"
    temporary.mkdir()
    done = run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(temporary)},
        timeout=300,
    )
    if number is signal.SIGKILL:  # the gate's own process is told by the kernel, and cleans up
        assert done.status == -number, done.stderr
        deadline = time.monotonic() + 60
        while left_behind(spec, temporary):
            assert time.monotonic() < deadline, left_behind(spec, temporary)
            time.sleep(0.2)
    else:
        assert done.status == 128 + number, done.stderr
        assert "the next run goes on" in done.stderr
    assert left_behind(spec, temporary) == []
    assert index.read(lab.evidence).entries == ()
    assert list(lab.evidence.rglob("*.json")) == []
    lab.suite()
    assert lab.run(spec).claim


def left_behind(spec: RoomSpec, temporary: Path) -> list[str]:
    """What a run with this folder for temporary files left there, and containers of the dead."""
    found = [path.name for path in temporary.iterdir()]
    owners = {name.removeprefix(gate.COPIES).rpartition("-")[0] for name in found}
    if spec.engine.has_images:
        with contextlib.closing(spec.engine.client()) as client:
            label = {"label": OWNER_LABEL}
            for made in client.containers.list(all=True, filters=label, ignore_removed=True):
                text = made.labels[OWNER_LABEL]
                if text in owners or owner.left_behind(text):
                    found.append(made.name)
    return found


@pytest.mark.parametrize("kind", [RoomKind.SANDBOX])
def test_records_removed_edited_and_wheels_swapped(
    lab: Lab, stages: Stages, kind: RoomKind
) -> None:
    spec = prepare(stages, kind.value)
    assert lab.run(spec).claim
    (path,) = (lab.evidence / "records").iterdir()
    good = path.read_bytes()

    path.write_bytes(good.replace(b"gate0.a.two", b"gate0.a.twx"))
    ((_, layer, what),) = reasons(lab.decide())
    assert (layer, "was changed after it was written" in what) == (Layer.EVIDENCE, True)

    path.unlink()
    ((_, layer, what),) = reasons(lab.decide())
    assert (layer, "is not there" in what) == (Layer.EVIDENCE, True)

    path.write_bytes(good)
    assert lab.decide().claim
    ((_, layer, what),) = reasons(lab.decide({lab.wheel.name: "0" * 64}))
    assert (layer, "about something else: the wheels" in what) == (Layer.EVIDENCE, True)
