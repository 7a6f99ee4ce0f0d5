"""Properties of `decide()`: whatever is taken away, a refusal never becomes a claim."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import OUTCOMES, Events, World, check, events, waiver

from qualify import evidence, index
from qualify.errors import EvidenceError
from qualify.index import HEAD, LINES, PUBLIC

PROFILE = settings(max_examples=60, deadline=None)

# Mostly `passed`, so that a good share of worlds is a claim or nearly one.
outcomes = st.one_of(st.just("passed"), st.just("passed"), st.sampled_from(OUTCOMES))
waivers = st.lists(
    st.builds(
        waiver,
        st.sampled_from(["gate0.a.two", "gate1.a.two", "gate7.a.two"]),
        st.sampled_from(["skipped", "expected failure"]),
        st.sampled_from([-1, 0, 30]),
    ),
    max_size=3,
    unique_by=lambda made: (made.check, made.outcome),
)


Reports = dict[str, Events]


def fill(folder: Path, made: Reports) -> World:
    return World(folder).fill(gate0=made["gate0"], gate1=made["gate1"], gate7=made["gate7"])


@st.composite
def reports(draw: st.DrawFn) -> Reports:
    """What gates 0, 1 and 7 write: one required check, one of two cases, and perhaps no end."""
    made: Reports = {}
    for gate in (0, 1, 7):
        checks = [
            check(f"gate{gate}.a.one"),
            check(f"gate{gate}.a.two", draw(outcomes), draw(outcomes), cases=("x", "y")),
        ]
        if gate == 7:
            checks.append(check("gate7.install.offline", draw(outcomes)))
        end = draw(st.sampled_from([0, 0, 0, 1, 2, None]))
        made[f"gate{gate}"] = events(*checks, gate=gate, end=end)
    return made


@PROFILE
@given(reports(), waivers, st.data())
def test_taking_evidence_away_never_helps(
    made: Reports, waived: list[Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = fill(folder, made)
        world.waivers = waived
        before = world.decide()
        assert before.claim != bool(before.reasons)

        records = evidence.read_all(folder)
        lost = data.draw(st.sampled_from(sorted(records)))
        without = {key: value for key, value in records.items() if key != lost}
        assert not world.decide(records=without).claim

        cut = data.draw(st.integers(0, len(records[lost]) - 1))
        shorter = records[lost][:cut] + records[lost][cut + 1 :]
        assert not world.decide(records={**records, lost: shorter}).claim

        files = [(folder / part).read_bytes() for part in (LINES, HEAD, PUBLIC)]
        lines = files[0].splitlines(keepends=True)
        gone = data.draw(st.integers(0, len(lines) - 1))
        kept = b"".join(lines[:gone] + lines[gone + 1 :])
        assert not world.decide(index=index.verify(kept, *files[1:])).claim
        assert not world.decide(index=index.verify(files[0], None, files[2])).claim
        assert not world.decide(index=index.verify(b"", None, None)).claim

        if world.waivers and not before.claim:
            fewer = list(world.waivers)
            fewer.pop(data.draw(st.integers(0, len(fewer) - 1)))
            assert not world.decide(waivers=fewer).claim

        world.asked.pop(data.draw(st.integers(0, len(world.asked) - 1)))
        assert not world.decide().claim


@PROFILE
@given(reports(), waivers, st.data())
def test_taking_a_line_of_a_report_away_never_helps(
    made: Reports, waived: list[Any], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        world = fill(Path(one), made)
        world.waivers = waived
        if world.decide().claim:
            return
        gate = data.draw(st.sampled_from(sorted(made)))
        lines = made[gate]
        gone = data.draw(st.integers(0, len(lines) - 1))
        less = {**made, gate: lines[:gone] + lines[gone + 1 :]}
        try:
            world = fill(Path(other), less)
        except EvidenceError:
            return  # a report that can't be read makes no record at all
        world.waivers = waived
        assert not world.decide().claim


@PROFILE
@given(reports(), waivers, st.randoms(use_true_random=False))
def test_order_does_not_matter(made: Reports, waived: list[Any], random: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        world = fill(Path(name), made)
        world.waivers = list(waived)
        before = world.decide()
        records = list(evidence.read_all(Path(name)).items())
        for mixed in (records, world.waivers, world.asked):
            random.shuffle(mixed)
        assert world.decide(records=dict(records)) == before


@PROFILE
@given(st.binary(max_size=60), st.integers(0, 3), st.floats(0, 1))
@example(b"\t", 1, 0.75)
def test_no_bytes_of_an_index_raise_or_help(junk: bytes, which: int, where: float) -> None:
    """Whatever stands in the index's files, the answer is a verdict; changed bytes refuse."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World(folder).fill()
        good = [(folder / part).read_bytes() for part in (LINES, HEAD, PUBLIC)]
        parts = list(good)
        if which < 3:
            at = int(where * len(parts[which]))
            parts[which] = parts[which][:at] + junk + parts[which][at + len(junk) :]
        else:
            parts = [junk, junk, junk]
        assert world.decide(index=index.verify(*good)).claim
        # Harmless: what follows the last signed line, and white space around the head.
        if not (parts[0].startswith(good[0]) and parts[1].strip() == good[1].strip()):
            assert not world.decide(index=index.verify(*parts)).claim
