"""Rule by rule: what a claim needs, and that each thing missing refuses with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from samples import (
    CELL,
    GATES,
    POLICY,
    World,
    check,
    events,
    jsonl,
    make_record,
    room,
    waiver,
)

from qualify import evidence, index
from qualify.claim import Denial, Verdict
from qualify.engine import RoomKind
from qualify.errors import InputError
from qualify.evidence import Fault
from qualify.matrix import EvidenceKind, Layer
from qualify.process import Completed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def only_reason(verdict: Verdict, text: str, layer: Layer, **where: object) -> None:
    """Every reason of the verdict says `text` and has this layer and place."""
    assert not verdict.claim
    assert verdict.reasons
    for reason in verdict.reasons:
        assert text in reason.what, verdict.reasons
        assert reason.layer is layer
        assert reason.owner == f"{layer.value} team"
        assert reason.mend
        for name, value in where.items():
            assert getattr(reason, name) == value


def test_all_passed_is_a_claim(world: World) -> None:
    verdict = world.fill().decide()
    assert verdict.reasons == ()
    assert verdict.claim
    assert verdict.ceiling == "release"
    assert verdict.rooms == ("debian12", "debian13")
    rows = {(row.gate, row.room): row for row in verdict.rows}
    assert len(rows) == 6 + 5  # three gates in two rooms, five that were not run
    assert rows[0, "debian12"].planned == rows[0, "debian12"].passed == 1


def test_nothing_is_not_a_claim(world: World) -> None:
    verdict = world.decide()
    assert not verdict.claim
    assert verdict.ceiling == "none"


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped", "expected failure", ""])
def test_only_passed_passes(world: World, outcome: str) -> None:
    lines = events(check("gate0.a.one"), check("gate0.firmware.two", outcome))
    verdict = world.fill(gate0=lines).decide()
    only_reason(verdict, outcome or "not run", Layer.FIRMWARE, gate=0, check="gate0.firmware.two")
    row = verdict.rows[0]
    assert (row.planned, row.passed) == (2, 1)
    assert row.failed + row.error + row.skipped + row.expected_failure + row.not_run == 1


def test_one_case_of_many_refuses(world: World) -> None:
    outcomes = ("passed", "failed", "passed")
    lines = events(check("gate0.a.one"), check("gate0.a.two", *outcomes, cases=("x", "y", "z")))
    only_reason(world.fill(gate0=lines).decide(), "failed [y]: why", Layer.DRIVER)


def test_a_live_waiver_turns_its_outcome(world: World) -> None:
    lines = events(check("gate0.a.one"), check("gate0.a.two", "skipped"))
    world.fill(gate0=lines).waivers = [waiver("gate0.a.two", days=0)]
    verdict = world.decide()
    assert verdict.claim
    assert verdict.rows[0].waived == verdict.rows[0].skipped == 1


@pytest.mark.parametrize(
    ("outcome", "other"),
    [
        ("skipped", waiver("gate0.a.two", days=-1)),
        ("skipped", waiver("gate0.a.two", "expected failure", days=9)),
        ("skipped", waiver("gate0.a.one", days=9)),
        ("expected failure", waiver("gate0.a.two", days=9)),
        ("failed", waiver("gate0.a.two", days=9)),
        ("", waiver("gate0.a.two", days=9)),
    ],
    ids=["expired", "other outcome", "other check", "skip for xfail", "failed", "not run"],
)
def test_another_waiver_turns_nothing(world: World, outcome: str, other: object) -> None:
    lines = events(check("gate0.a.one"), check("gate0.a.two", outcome))
    world.fill(gate0=lines)
    verdict = world.decide(waivers=[other])
    only_reason(verdict, outcome or "not run", Layer.DRIVER, check="gate0.a.two")


def test_an_expired_waiver_is_named(world: World) -> None:
    lines = events(check("gate0.a.one"), check("gate0.a.two", "skipped"))
    world.fill(gate0=lines).waivers = [waiver("gate0.a.two", days=-1)]
    only_reason(world.decide(), "its waiver, #1, ran out on 2026-11-28", Layer.DRIVER)


def test_a_waiver_of_one_case_leaves_the_other(world: World) -> None:
    mixed = check("gate0.a.two", "skipped", "expected failure", cases=("x", "y"))
    world.fill(gate0=events(check("gate0.a.one"), mixed))
    verdict = world.decide(waivers=[waiver("gate0.a.two", days=9)])
    only_reason(verdict, "expected failure [y]", Layer.DRIVER)


def test_no_planned_checks_refuses(world: World) -> None:
    verdict = world.fill(gate1=events(gate=1, end=5)).decide()
    whats = [reason.what for reason in verdict.reasons if reason.room == "debian12"]
    assert whats == [
        "the gate did not reach its end: pytest's status is 5",
        "the gate planned no checks",
        "a required check was not planned",
    ]


def test_a_lost_required_check_refuses(world: World) -> None:
    lines = events(check("gate0.a.other"))
    verdict = world.fill(gate0=lines).decide()
    only_reason(verdict, "required check was not planned", Layer.DRIVER, check="gate0.a.one")


def test_a_gate_that_crashed_refuses(world: World) -> None:
    lines = events(
        check("gate0.a.one"), check("gate0.a.two", ""), check("gate0.a.three", ""), end=None
    )
    lines.append({"event": "start", "id": "gate0.a.two", "case": "", "attempt": 1})
    verdict = world.fill(gate0=lines).decide()
    found = {(r.check, r.layer, r.what.split(":")[0]) for r in verdict.reasons}
    assert found == {
        ("", Layer.PIPELINE, "the gate did not reach its end"),
        ("gate0.a.two", Layer.DRIVER, "error"),
        ("gate0.a.three", Layer.DRIVER, "not run"),
    }
    row = verdict.rows[0]
    assert (row.planned, row.passed, row.error, row.not_run) == (3, 1, 1, 1)


def test_a_fault_of_the_room_refuses(world: World) -> None:
    world.fill()
    world.add(
        jsonl(events(check("gate0.a.one"), check("gate0.a.two", ""), end=None)),
        key="a" * 64,
        faults=(Fault(layer=Layer.PIPELINE, what="the room was killed"),),
    )
    verdict = world.decide()
    assert {(r.layer, r.what) for r in verdict.reasons} == {
        (Layer.PIPELINE, "the room was killed"),
        (Layer.DRIVER, "not run"),
    }


def test_a_room_that_was_killed_before_the_plan_is_the_only_reason(world: World) -> None:
    killed = Fault(layer=Layer.PIPELINE, what="the room was killed")
    world.fill().add(b"", key="a" * 64, faults=(killed,))
    only_reason(world.decide(), "the room was killed", Layer.PIPELINE, gate=0, room="debian12")


def test_a_suite_that_cannot_be_collected_is_the_only_reason(world: World) -> None:
    fault = Fault(layer=Layer.PIPELINE, what="cannot be collected: SyntaxError (test_a.py)")
    lines = jsonl(events(check("gate0.a.two", ""), end=2))
    world.fill().add(lines, key="a" * 64, faults=(fault,))
    only_reason(world.decide(), fault.what, Layer.PIPELINE, gate=0, room="debian12")


def test_without_evidence_no_room_is_blamed(tmp_path: Path) -> None:
    verdict = World(tmp_path).decide()
    assert not verdict.claim and verdict.reasons
    assert not [reason.what for reason in verdict.reasons if "rooms" in reason.what]


def test_a_whole_run_replaces_one_that_was_cut_short(world: World) -> None:
    world.add(jsonl(events(check("gate0.a.one", ""), end=None)))
    assert world.fill().decide().claim


def test_a_check_that_fails_once_on_the_same_inputs_has_failed(world: World) -> None:
    world.add(jsonl(events(check("gate0.a.one", "failed"), end=1)))
    verdict = world.fill().decide()
    only_reason(verdict, "failed: why", Layer.DRIVER, room="debian12")
    assert len(verdict.rows[0].records) == 2


def test_other_inputs_do_not_count(world: World) -> None:
    world.add(jsonl(events(check("gate0.a.one", "failed"), end=1)), key="a" * 64)
    world.asked.clear()
    assert world.fill().decide().claim


def test_a_removed_record_denies(world: World, tmp_path: Path) -> None:
    name = world.fill().add(jsonl(events(check("gate0.a.one"))), key="a" * 64)
    world.asked.pop()  # nobody asks for it: that it is gone is enough
    assert world.decide().claim
    (tmp_path / "records" / f"{name}.json").unlink()
    only_reason(world.decide(), "is not there", Layer.EVIDENCE, gate=0)


def test_an_edited_record_denies(world: World, tmp_path: Path) -> None:
    name = world.add(jsonl(events(check("gate0.a.one", "failed"))))
    world.fill()
    path = tmp_path / "records" / f"{name}.json"
    path.write_bytes(path.read_bytes().replace(b'"failed"', b'"passed"'))
    only_reason(world.decide(), "was changed after it was written", Layer.EVIDENCE, gate=0)


def test_a_record_of_another_wheel_denies(world: World) -> None:
    swapped = {name: "9" * 64 for name in world.fill().decide().wheels}
    world.question["wheels"] = swapped
    verdict = world.decide()
    assert not verdict.claim
    assert "is about something else: the wheels" in verdict.reasons[0].what
    assert all(reason.layer is Layer.EVIDENCE for reason in verdict.reasons)


def test_a_record_of_another_cell_denies(world: World) -> None:
    world.question["cell"] = msgspec.structs.replace(CELL, configurations=())
    verdict = world.fill().decide()
    assert not verdict.claim
    assert "is about something else: the cell" in verdict.reasons[0].what


def test_emulated_never_satisfies_hardware(world: World) -> None:
    world.fill()
    cell = msgspec.structs.replace(CELL, evidence=EvidenceKind.HARDWARE)
    world.question["cell"] = cell
    assert not world.decide().claim


def test_a_record_that_says_hardware_satisfies_nothing_emulated(world: World) -> None:
    world.add(jsonl(events(check("gate0.a.one"))), key="a" * 64, evidence=EvidenceKind.HARDWARE)
    verdict = world.fill().decide()
    assert "the evidence: expected emulated, got hardware" in verdict.reasons[0].what


def test_outcomes_that_do_not_follow_are_refused(world: World) -> None:
    lines = jsonl(events(check("gate0.a.one", "failed"), end=1))
    good = make_record(jsonl(events(check("gate0.a.one")))).predicate.results
    world.add(lines, key="a" * 64, results=good)
    verdict = world.fill().decide()
    assert "do not follow from the attempts" in verdict.reasons[0].what


def test_a_damaged_index_is_the_reason(world: World, tmp_path: Path) -> None:
    world.fill()
    path = tmp_path / index.LINES
    path.write_bytes(path.read_bytes().replace(b'"gate":0', b'"gate":1', 1))
    only_reason(world.decide(), "index line 2 does not follow", Layer.EVIDENCE)


def test_an_untrusted_key_denies(world: World) -> None:
    world.fill()
    policy = msgspec.structs.replace(POLICY, trusted_keys=("f" * 64,))
    only_reason(world.decide(policy=policy), "does not trust the index's key", Layer.EVIDENCE)
    mine = msgspec.structs.replace(POLICY, trusted_keys=(world.decide().key_id,))
    assert world.decide(policy=mine).claim


@pytest.mark.parametrize("kind", [RoomKind.SANDBOX, RoomKind.PLAIN])
def test_without_containers_experimental_is_the_ceiling(world: World, kind: RoomKind) -> None:
    world.fill(kind=kind)
    assert world.decide().claim
    assert world.decide().ceiling == "experimental"
    release = world.decide("release")
    assert any("clean rooms (docker/podman)" in reason.what for reason in release.reasons)


def test_two_rooms_of_one_system_are_too_few_for_release(world: World) -> None:
    for name in ("a", "b"):
        for gate in (0, 1, 7):
            lines = events(check(f"gate{gate}.a.one"), gate=gate)
            world.add(jsonl(lines), gate, room(name, os="12"))
    whats = [reason.what for reason in world.decide("release").reasons]
    assert "distinct operating systems: expected 2, got 1" in whats
    assert not any("clean rooms" in what for what in whats)


def test_one_room_is_too_few(world: World) -> None:
    world.fill()
    world.asked = [asked for asked in world.asked if asked.room == "debian12"]
    only_reason(world.decide(), "clean rooms", Layer.PIPELINE)


def test_a_gate_left_out_in_one_room_refuses(world: World) -> None:
    world.fill()
    world.asked = [asked for asked in world.asked if (asked.room, asked.gate) != ("debian13", 7)]
    only_reason(world.decide(), "gate 7 release: not run", Layer.EVIDENCE, room="debian13")


def test_gates_that_are_not_built_refuse_release(world: World) -> None:
    verdict = world.fill().decide("release")
    whats = [reason.what for reason in verdict.reasons]
    assert whats == [
        f"gate {gate} {GATES.gates[gate].name}: not run, since it is not built yet"
        for gate in (2, 3, 4, 5, 6, 7)
    ]


def test_inspection_shows_no_obligation(world: World) -> None:
    lines = events(check("gate0.a.one", kind="inspection"))
    only_reason(world.fill(gate0=lines).decide(), "obligations not shown", Layer.EVIDENCE)


def test_a_waived_check_shows_no_obligation(world: World) -> None:
    world.fill(gate0=events(check("gate0.a.one", "skipped")))
    world.waivers = [waiver("gate0.a.one", days=9)]
    only_reason(world.decide(), "obligations not shown", Layer.EVIDENCE)


def test_single_checks_of_another_gate(world: World) -> None:
    """Of gate 7, `experimental` asks for one check: others may fail there, that one not."""
    lines = events(check("gate7.a.one", "failed"), check("gate7.install.offline"), gate=7, end=1)
    assert world.fill(gate7=lines).decide().claim
    lines = events(check("gate7.a.one"), gate=7)
    world.add(jsonl(lines), 7, key="a" * 64)
    only_reason(
        world.decide(),
        "required check was not planned",
        Layer.PLUGIN,
        check="gate7.install.offline",
    )


def test_an_unknown_tier_is_an_input_error(world: World) -> None:
    with pytest.raises(InputError, match="expected experimental, release, got gold"):
        world.decide("gold")


def test_a_verdict_is_json(world: World) -> None:
    data = json.loads(msgspec.json.encode(world.fill().decide()))
    assert data["claim"] is True
    assert msgspec.convert(data, Verdict) == world.decide()


@pytest.mark.parametrize("died", ["failed", "error"])
def test_a_check_that_failed_before_a_crash_is_not_forgotten_by_a_better_run(
    world: World, died: str
) -> None:
    """Else a gate that crashes now and then is run again until it gets through."""
    world.fill()
    world.add(jsonl(events(check("gate0.a.one", died), end=None)))
    world.add(jsonl(events(check("gate0.a.one"))))
    verdict = world.decide()
    assert not verdict.claim
    assert any(r.check == "gate0.a.one" and r.what.startswith(died) for r in verdict.reasons)


def test_what_a_full_disk_did_to_a_check_is_forgotten_by_a_better_run(world: World) -> None:
    world.fill()
    lines = events(check("gate0.a.one", "failed"), end=None)
    lines[-1]["message"] = "OSError: [Errno 28] No space left on device"
    world.add(jsonl(lines), faults=(Fault(layer=Layer.PIPELINE, what=evidence.FULL),))
    world.add(jsonl(events(check("gate0.a.one"))))
    assert world.decide().claim
    world.add(jsonl(lines))  # the check said so, and the disk was not full
    assert not world.decide().claim


def test_a_process_that_ended_otherwise_than_it_wrote_is_refused(world: World) -> None:
    crashed = Completed(argv=("pytest",), status=-11, stdout="", stderr="", seconds=1.0)
    world.fill()
    assert world.decide().claim
    for processes in ((crashed,), ()):
        other = World(world.folder / f"{len(processes)}").fill()
        other.add(jsonl(events(check("gate0.a.one"))), processes=processes)
        status = "-11" if processes else "None"
        (reason,) = other.decide().reasons
        assert (
            reason.what == f"the gate wrote that it ends with 0, and its process did with {status}"
        )


def test_a_failure_that_no_check_knows_of_is_refused(world: World) -> None:
    world.fill(gate0=events(check("gate0.a.one"), end=1))
    assert "something failed, and every check passed" in world.decide().reasons[0].what


def test_an_older_head_that_is_put_back_is_refused(world: World) -> None:
    world.fill()
    head = (world.folder / index.HEAD).read_bytes()
    world.add(jsonl(events(check("gate0.a.one", "failed"))))
    (world.folder / index.HEAD).write_bytes(head)
    assert "does not count the last 1 of the index's lines" in world.decide().reasons[0].what
    index.require(world.folder)
    assert any(r.check == "gate0.a.one" for r in world.decide().reasons), "it counts again"


def test_what_an_inspection_denies_is_refused_whatever_the_gates_showed(world: World) -> None:
    assert world.fill().decide().claim
    denial = Denial(what="audit: execstack in a.whl", mend="link it otherwise")
    verdict = world.decide(denials=(denial,))
    assert not verdict.claim
    (reason,) = verdict.reasons
    assert (reason.layer, reason.what, reason.mend) == (Layer.PACKAGE, denial.what, denial.mend)
    assert verdict.rows == world.decide().rows


def test_denied_wheels_of_which_nothing_was_asked_have_no_other_reason(world: World) -> None:
    """No gate is run on them: that none ran is no news, and still no claim."""
    denial = Denial(what="audit: execstack in a.whl", mend="link it otherwise")
    verdict = world.decide(denials=(denial,))
    assert not verdict.claim
    assert [reason.what for reason in verdict.reasons] == [denial.what]
