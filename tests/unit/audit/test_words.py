"""What a person reads, and what a code host does."""

from __future__ import annotations

import io

import jsonschema
import pytest
from rich.console import Console

from qualify.audit import words
from qualify.audit.finding import Finding, kinds
from qualify.audit.report import Excused, Report
from qualify.errors import InputError


def made(*findings: Finding, accepted: tuple[Excused, ...] = ()) -> Report:
    return Report(path="dist/a b.whl", members=3, binaries=1, findings=findings, accepted=accepted)


def found(id: str, member: str = "small/a.so", got: str = "something") -> Finding:
    return Finding(id=id, wheel="a b.whl", member=member, offset=7, got=got)


def shown(*reports: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(words.render(list(reports)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_nothing_found() -> None:
    assert shown(made()) == "a b.whl: no findings in 3 members, 1 of them compiled\n"


def test_the_worst_comes_first_and_each_kind_is_explained_once() -> None:
    several = [found(id) for id in ("build-path", "stray-file", "execstack", "stray-file")]
    text = shown(made(*several))
    assert text.splitlines()[0].startswith("a b.whl: 1 error, 2 warnings, 1 note in 3 members")
    places = [text.index(f"{id}: ") for id in ("execstack", "stray-file", "build-path")]
    assert places == sorted(places)
    assert text.count(kinds()["stray-file"].wrong) == text.count("  mend: Exclude it") == 1


def test_many_of_a_kind_are_counted() -> None:
    text = shown(made(*(found("stray-file", f"small/{n}.orig") for n in range(8))))
    assert "small/4.orig" in text and "small/5.orig" not in text
    assert "and 3 more" in text


def test_several_wheels_have_a_sum() -> None:
    text = shown(made(found("execstack")), made(), made(found("build-path")))
    assert text.splitlines()[-1] == "3 wheels: 1 error, 1 note"


def test_accepted_is_shown_with_its_reason() -> None:
    text = shown(made(accepted=(Excused(found("execstack"), "old"),) * 2))
    assert "no findings" in text and "accepted execstack, 2 times: old" in text


def test_no_line_ends_in_blanks_and_nothing_is_markup() -> None:
    text = shown(made(found("execstack", "small/[bold]a[/bold].so", "\x1b[31m\u202e")))
    assert "[bold]" in text and "\x1b" not in text and "\u202e" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_explain() -> None:
    text = words.explain("execstack")
    assert text.startswith("execstack (error)\n") and kinds()["execstack"].seen in text
    with pytest.raises(InputError, match="execstack"):
        words.explain("nothing")


SARIF_RULES = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
                            "properties": {"level": {"enum": ["error", "warning", "note"]}},
                        },
                    }
                },
            },
        },
    },
}


def test_sarif_names_each_rule_once() -> None:
    """The parts of sarif-schema-2.1.0.json that results here have."""
    log = words.sarif([made(found("execstack"), found("build-path")), made(found("execstack"))])
    jsonschema.validate(log, SARIF_RULES)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["build-path", "execstack"]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [
        *("execstack", "build-path", "execstack"),
    ]
    location = run["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "dist/a%20b.whl"
    wheel = location["physicalLocation"]["artifactLocation"]["index"]
    (related,) = run["results"][0]["relatedLocations"]
    member = run["artifacts"][related["physicalLocation"]["artifactLocation"]["index"]]
    assert member == {"location": {"uri": "small/a.so"}, "parentIndex": wheel}
    assert len(run["artifacts"]) == 2, "each wheel and member is listed once"


def test_what_is_accepted_is_a_suppressed_result() -> None:
    log = words.sarif([made(found("build-path"), accepted=(Excused(found("execstack"), "old"),))])
    (run,) = log["runs"]
    first, second = run["results"]
    assert "suppressions" not in first and second["ruleId"] == "execstack"
    assert second["suppressions"] == [{"kind": "external", "justification": "old"}]
    assert run["tool"]["driver"]["rules"][second["ruleIndex"]]["id"] == "execstack"
