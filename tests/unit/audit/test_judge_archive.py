"""Names and layouts that are right, and the places that findings name."""

from __future__ import annotations

import pytest
from broken_wheels.archives import streamed
from broken_wheels.good import pure

from audit.facts import facts_of
from qualify.audit import judge_archive


@pytest.mark.parametrize(
    "name", ["small/a..b", "small/...", "small/a:b", "small/\u00e9.txt", "small/ ", "a" * 200]
)
def test_odd_names_that_are_right(name: str) -> None:
    made = pure()
    made.entries[name] = b"a file"
    assert list(judge_archive.judge(facts_of(made))) == []


def test_what_a_pipe_wrote_is_right() -> None:
    made = pure()
    made.then = streamed
    assert list(judge_archive.judge(facts_of(made))) == []


def test_a_finding_names_the_entry_of_its_member() -> None:
    made = pure()
    made.entries["small/../a"] = b"a file"
    facts = facts_of(made)
    (finding,) = judge_archive.judge(facts)
    (member,) = [m for m in facts.archive.members if m.name == "small/../a"]
    assert (finding.id, finding.member) == ("zip-name-parent", "small/../a")
    assert finding.offset == member.entry


def test_several_of_one_name_are_told_one_by_one() -> None:
    made = pure()
    made.again = [("small/data.txt", b"again")] * 3
    with pytest.warns(UserWarning, match="Duplicate name"):
        found = list(judge_archive.judge(facts_of(made)))
    assert [finding.id for finding in found] == ["zip-duplicate-name"] * 3
    assert len({finding.offset for finding in found}) == 3
