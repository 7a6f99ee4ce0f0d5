"""Records: what in-toto and the schema accept, written whole, and refused when inconsistent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from samples import WHEELS, check, events, jsonl, make_record

from qualify import evidence
from qualify.errors import EvidenceError
from qualify.process import Completed

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "record.json"


def made() -> evidence.Record:
    lines = events(check("gate0.a.one"), check("gate0.a.two", "failed", "", cases=("x", "y")))
    return make_record(jsonl(lines))


def test_a_record_comes_back() -> None:
    data = evidence.encode(made())
    assert evidence.decode(data) == made()
    assert evidence.decode(data).wheels == WHEELS
    assert data == evidence.encode(evidence.decode(data))


def test_it_is_an_in_toto_statement() -> None:
    statement = json.loads(evidence.encode(made()))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert {s["name"]: s["digest"]["sha256"] for s in statement["subject"]} == WHEELS
    assert statement["predicate"]["evidence"] == "emulated"


def test_outcomes_are_kept_for_readers() -> None:
    results = {r.id: r.outcome.value for r in made().predicate.results}
    assert results == {"gate0.a.one": "passed", "gate0.a.two": "failed"}


def test_the_schema_is_the_one_that_is_published() -> None:
    text = json.dumps(evidence.schema(), indent=2) + "\n"
    assert SCHEMA.read_text() == text, "run: qualify schema > docs/schema/record.json"


def test_records_satisfy_the_published_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(evidence.encode(made())), schema)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("predicate", "evidence"), None),
        (("predicate", "evidence"), "imagined"),
        (("predicate", "gate"), 8),
        (("predicate", "schema"), 2),
        (("predicate", "extra"), 1),
        (("predicate", "attempts", 0, "outcome"), "fine"),
        (("predicate", "planned", 0, "kind"), "guess"),
        (("subject",), []),
        (("subject", 0, "digest"), {}),
        (("subject", 0, "digest", "sha256"), "1" * 64 + "\n"),
        (("_type",), "https://in-toto.io/Statement/v0.1"),
        (("predicateType",), "other"),
    ],
)
def test_what_is_not_a_record_is_refused(path: tuple[Any, ...], value: object) -> None:
    statement = json.loads(evidence.encode(made()))
    *way, last = path
    place = statement
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(EvidenceError, match="not a record"):
        evidence.decode(json.dumps(statement).encode())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(statement, json.loads(SCHEMA.read_text()))


def test_a_detail_that_nests_too_deep_is_not_a_record() -> None:
    lines = jsonl(events(check("gate0.a.one", detail={"deep": "here"})))
    data = evidence.encode(make_record(lines))
    with pytest.raises(EvidenceError, match="not a record: maximum recursion depth"):
        evidence.decode(data.replace(b'"here"', b"[" * 100_000 + b"]" * 100_000))


def test_attempts_of_unplanned_checks_are_refused() -> None:
    predicate = made().predicate
    less = msgspec.structs.replace(
        predicate, planned=predicate.planned[:1], results=predicate.results[:1]
    )
    data = evidence.encode(msgspec.structs.replace(made(), predicate=less))
    with pytest.raises(EvidenceError, match="not planned"):
        evidence.decode(data)


def test_a_record_needs_a_wheel() -> None:
    with pytest.raises(EvidenceError, match="At least one subject"):
        evidence.record({}, made().predicate)


def test_it_is_written_under_its_digest(tmp_path: Path) -> None:
    name = evidence.write(tmp_path, made())
    assert evidence.read_all(tmp_path) == {name: evidence.encode(made())}
    assert evidence.digest(evidence.encode(made())) == name
    assert evidence.write(tmp_path, made()) == name
    assert [path.name for path in (tmp_path / "records").iterdir()] == [f"{name}.json"]


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        evidence.write(tmp_path, made())
    assert list((tmp_path / "records").iterdir()) == []


def test_long_output_keeps_its_end() -> None:
    done = Completed(argv=("x",), status=0, stdout="a" * 30_000 + "end", stderr="", seconds=1.0)
    short = evidence.shorten(done)
    assert short.stdout.startswith("[10003 characters left out]")
    assert short.stdout.endswith("end")
    assert short.stderr == ""
