"""A gate's inputs have one digest, and what went wrong in a room becomes a fault of its layer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from samples import CELL, GATES, check, events, jsonl, room

from qualify import evidence, gate, owner, report
from qualify.engine import Engine, RoomKind
from qualify.errors import ChangedError, InputError
from qualify.evidence import Digest, Neighbour
from qualify.gate import Inputs, Releases
from qualify.matrix import Layer
from qualify.process import Completed
from qualify.report import Report
from qualify.room import RoomSpec

HEALTH = GATES.gates[0]


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    for name in ("conftest.py", "gate0_health/test_a.py", "gate1_tensors/test_b.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def inputs(suites: Path, **changes: Any) -> Inputs:
    spec = RoomSpec(engine=Engine(kind=RoomKind.DOCKER), facts=room(), digest="d", hidden=())
    made = Inputs(
        cell=CELL,
        gate=HEALTH,
        suite=gate.read_suite(suites, HEALTH),
        wheels=(Path("a.whl"),),
        digests={"a.whl": "1" * 64},
        closure="c",
        room=spec,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is in no suite."""
    return tmp_path_factory.mktemp("beside")


def releases(folder: Path, text: str) -> Releases:
    """Of each neighbour one wheel, with `text` in it."""
    wheels: dict[str, tuple[Path, ...]] = {}
    for name in ("before", "after"):
        wheels[name] = (folder / f"{name}-{text}.whl",)
        wheels[name][0].write_text(text)
    (folder / "numpy.whl").write_text("numpy")
    compat = folder / "compat.toml"
    compat.write_text("")
    return Releases(
        wheels=wheels,
        neighbours=tuple(
            Neighbour(
                release=name,
                name=wheels[name][0].name,
                digest=Digest(sha256=evidence.digest(text.encode())),
                made="moved",
            )
            for name in ("before", "after")
        ),
        companions={folder / "numpy.whl": evidence.digest(b"numpy")},
        compat=compat,
        compat_sha256=evidence.digest(b""),
    )


def test_releases_are_laid_out_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "here.whl").write_text("here")
    made = gate.lay_out(tmp_path, [tmp_path / "here.whl"], releases(tmp_path, "a"))
    files = sorted(str(path.relative_to(made)) for path in made.rglob("*") if path.is_file())
    assert files == [
        *("after/after-a.whl", "before/before-a.whl", "companions/numpy.whl"),
        *("compat.toml", "here/here.whl"),
    ]


def test_a_neighbour_that_changed_makes_no_record(suites: Path, beside: Path) -> None:
    wheel = beside / "a.whl"
    wheel.write_text("a")
    digests = {"a.whl": evidence.digest(b"a")}
    given = inputs(suites, wheels=(wheel,), digests=digests, releases=releases(beside, "a"))
    with gate._copied(given) as (_, _, laid_out):
        assert laid_out is not None and (laid_out / "here" / "a.whl").read_text() == "a"
    for name, was in (("before-a.whl", "a"), ("numpy.whl", "numpy"), ("compat.toml", "")):
        (beside / name).write_text("other")
        with pytest.raises(ChangedError, match=f"{re.escape(name)} changed"), gate._copied(given):
            pytest.fail("it would have been installed")
        (beside / name).write_text(was)


def test_a_suite_is_its_folder_and_what_lies_beside(suites: Path) -> None:
    before = gate.read_suite(suites, HEALTH)
    assert before.files == ("conftest.py", "gate0_health/test_a.py")
    (suites / "gate0_health" / "__pycache__").mkdir()
    (suites / "gate0_health" / "__pycache__" / "x.pyc").write_text("x")
    (suites / "gate1_tensors" / "test_b.py").write_text("changed")
    assert gate.read_suite(suites, HEALTH) == before
    (suites / "conftest.py").write_text("changed")
    assert gate.read_suite(suites, HEALTH).sha256 != before.sha256


def test_a_gate_without_a_suite_is_an_input_error(suites: Path) -> None:
    with pytest.raises(InputError, match="gate 2 has no suite"):
        gate.read_suite(suites, GATES.gates[2])


def test_every_input_is_in_the_key(suites: Path, beside: Path) -> None:
    first = inputs(suites)
    other_room = msgspec.structs.replace(first.room, digest="e")
    other_facts = msgspec.structs.replace(first.room, facts=room("debian13"))
    changed = [
        inputs(suites, cell=msgspec.structs.replace(CELL, firmware="1.0.1")),
        inputs(suites, gate=GATES.gates[1]),
        inputs(suites, suite=msgspec.structs.replace(first.suite, sha256="x")),
        inputs(suites, digests={"a.whl": "2" * 64}),
        inputs(suites, closure="d"),
        inputs(suites, room=other_room),
        inputs(suites, room=other_facts),
        inputs(suites, releases=releases(beside, "a")),
        inputs(suites, releases=releases(beside, "b")),
        inputs(suites, releases=msgspec.structs.replace(releases(beside, "a"), compat_sha256="f")),
        inputs(suites, releases=msgspec.structs.replace(releases(beside, "a"), companions={})),
    ]
    keys = {first.key, *(made.key for made in changed)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "CODE", ("gate",))
        assert inputs(suites).key not in keys, "the code that runs it"
    assert len(keys) == 1 + len(changed)
    for same in (
        inputs(suites, wheels=(Path("elsewhere/a.whl"),)),
        inputs(suites, cell=msgspec.structs.replace(CELL, images=("debian12",))),
    ):
        assert same.key == first.key, "where the wheels lie, and what other rooms there are"


@pytest.mark.parametrize("changed", ["a.whl", "conftest.py", "gate0_health/test_a.py"])
def test_what_changes_after_it_was_digested_makes_no_record(suites: Path, changed: str) -> None:
    wheel = suites / "gate1_tensors" / "a.whl"
    wheel.write_text("wheel")
    digests = {"a.whl": evidence.digest(b"wheel")}
    given = inputs(suites, wheels=(wheel,), digests=digests)
    path = wheel if changed == "a.whl" else suites / changed
    path.write_text("other")
    with pytest.raises(ChangedError, match=rf"{path.parent.name}.* changed while the gates"):
        gate.run(given)


def done(status: int = 0, out: str = "", timed_out: bool = False) -> Completed:
    return Completed(
        argv=("x",), status=status, stdout=out, stderr="", seconds=1.0, timed_out=timed_out
    )


ENDED = report.parse(jsonl(events(check("gate0.a.one"))))
CRASHED = report.parse(jsonl(events(check("gate0.a.one", ""), end=None)))


@pytest.mark.parametrize(
    ("processes", "facts", "layer", "what"),
    [
        ([done(), done()], ENDED, None, ""),
        ([done(), done(-11, "a\nSegmentation fault\n")], CRASHED, Layer.PIPELINE, "-11"),
        ([done(), done(1, timed_out=True)], CRASHED, Layer.PIPELINE, "did not end in 9 s"),
        (
            [done(), done(3, "OSError: No space left on device")],
            CRASHED,
            Layer.PIPELINE,
            "status 3",
        ),
        ([done(), done(0, "No space left on device")], ENDED, None, ""),
        ([done(), done(-11)], ENDED, Layer.PIPELINE, "ended with 0, and its process with -11"),
        ([done(1, "ERROR: no torch")], Report(), Layer.PACKAGE, "do not install: ERROR: no torch"),
        (
            [done(), done(2)],
            Report(end=2, faults=("gate0/test_x.py: E  in line 1\nNameError: x",)),
            Layer.PIPELINE,
            "cannot be collected: NameError: x (gate0/test_x.py)",
        ),
    ],
)
def test_faults(processes: list[Completed], facts: Report, layer: Layer | None, what: str) -> None:
    faults = gate.judge_run(processes, facts, 9, died=False, full=False)
    assert len(faults) == (layer is not None)
    for fault in faults:
        assert fault.layer is layer
        assert what in fault.what


def test_a_room_that_died_has_its_reason_already() -> None:
    assert gate.judge_run([done()], Report(), 9, died=True, full=False) == []


@pytest.mark.parametrize(
    ("processes", "facts", "faults"),
    [([done(), done(3)], CRASHED, 1), ([done(1)], Report(), 1), ([done(), done()], ENDED, 0)],
)
def test_a_full_disk_is_seen_at_the_disk(
    processes: list[Completed], facts: Report, faults: int
) -> None:
    found = gate.judge_run(processes, facts, 9, died=False, full=True)
    assert [fault.what for fault in found] == [evidence.FULL] * faults


def test_the_host_has_facts() -> None:
    host = gate.read_host()
    assert host.cpus > 0
    assert host.memory_bytes > 10**8
    assert host.architecture


def test_copies_of_a_killed_run_are_removed(
    suites: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    dead = msgspec.structs.replace(owner.current(), pid=2**22 + 1)
    (temporary / f"{gate.COPIES}{dead.text()}-x" / "gates").mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    given = inputs(suites, wheels=())
    (suites / "conftest.py").write_text("changed")
    with pytest.raises(ChangedError):
        gate.run(given)
    assert not list(temporary.iterdir())
