"""The gate protocol on real pytest runs of tiny suites, each in a process of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from qualify import report
from qualify.outcome import Outcome
from qualify.process import Completed, run
from qualify.report import Report

SUITE = Path(__file__).parents[1] / "gates"
HEAD = """
import os, pytest
def check(id, **more):
    return pytest.mark.check(id, **{"obligations": ["B1"], "kind": "focused test", **more})
"""


class Gate:
    """A copy of the suite's protocol, with one gate of its own."""

    def __init__(self, folder: Path) -> None:
        for name in ("conftest.py", "pytest.ini"):
            shutil.copy(SUITE / name, folder)
        self.folder = folder
        self.gate = folder / "gate0_health"
        self.gate.mkdir()
        self.report = folder / "report.jsonl"

    def run(self, *arguments: str, **files: str) -> Completed:
        for name, text in files.items():
            (self.gate / f"{name}.py").write_text(HEAD + text)
        argv = [sys.executable, "-m", "pytest", str(self.gate), "--report", str(self.report)]
        clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return run([*argv, *arguments], cwd=self.folder, env=clean, timeout=60)

    def facts(self) -> Report:
        return report.parse(self.report.read_bytes())

    def outcomes(self) -> dict[str, list[Outcome]]:
        facts = self.facts()
        return {c.id: list(report.case_outcomes(c, facts.attempts)) for c in facts.planned}


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_each_outcome(gate: Gate) -> None:
    done = gate.run(
        test_all="""
@pytest.fixture
def broken(): raise OSError("no device")
@pytest.fixture
def broken_after():
    yield
    raise OSError("not closed")
@check("gate0.a.passed")
def test_passed(): pass
@check("gate0.a.failed")
def test_failed(): assert 1 == 2
@check("gate0.a.error")
def test_error(broken): pass
@check("gate0.a.teardown")
def test_teardown(broken_after): pass
@check("gate0.a.both")
def test_both(broken_after): assert 1 == 2
@check("gate0.a.skipped")
def test_skipped(): pytest.skip("not today")
@pytest.mark.skip(reason="never")
@check("gate0.a.marked")
def test_marked(): pass
@pytest.mark.xfail(reason="known")
@check("gate0.a.expected")
def test_expected(): assert 0
@pytest.mark.xfail(reason="known", run=False)
@check("gate0.a.not_tried")
def test_not_tried(): pass
@pytest.mark.xfail(reason="known")
@check("gate0.a.unexpected")
def test_unexpected(): pass
@pytest.mark.xfail(reason="known", strict=True)
@check("gate0.a.strict")
def test_strict(): pass
"""
    )
    assert done.status == 1, done.stdout
    assert {id.rpartition(".")[2]: o for id, [o] in gate.outcomes().items()} == {
        "passed": Outcome.PASSED,
        "failed": Outcome.FAILED,
        "error": Outcome.ERROR,
        "teardown": Outcome.ERROR,
        "both": Outcome.FAILED,
        "skipped": Outcome.SKIPPED,
        "marked": Outcome.SKIPPED,
        "expected": Outcome.EXPECTED_FAILURE,
        "not_tried": Outcome.EXPECTED_FAILURE,
        "unexpected": Outcome.UNEXPECTED_PASS,
        "strict": Outcome.UNEXPECTED_PASS,
    }
    facts = gate.facts()
    assert (facts.gate, facts.device, facts.end) == (0, "emu", 1)
    messages = {attempt.id: attempt.message for attempt in facts.attempts}
    assert "assert 1 == 2" in messages["gate0.a.failed"]
    assert "no device" in messages["gate0.a.error"]
    assert messages["gate0.a.skipped"].endswith("not today")
    assert messages["gate0.a.expected"] == "known"


def test_a_crash_leaves_an_error_and_what_was_not_run(gate: Gate) -> None:
    done = gate.run(
        test_crash="""
@check("gate0.a.one")
def test_one(): pass
@check("gate0.a.two")
def test_two(): os.kill(os.getpid(), 11)
@check("gate0.a.three")
def test_three(): pass
"""
    )
    assert done.status == -11
    assert list(gate.outcomes().values()) == [
        [Outcome.PASSED],
        [Outcome.ERROR],
        [Outcome.NOT_RUN],
    ]
    assert gate.facts().end is None


def test_the_plan_is_on_the_disk_before_anything_runs(gate: Gate) -> None:
    gate.run(
        test_plan=f"""
import json, pathlib
@check("gate0.a.one", obligations=["B1", "G0"], kind="inspection")
def test_one():
    lines = pathlib.Path({str(gate.report)!r}).read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["plan", "start"]
"""
    )
    assert gate.outcomes() == {"gate0.a.one": [Outcome.PASSED]}
    (planned,) = gate.facts().planned
    assert planned.obligations == ("B1", "G0")
    assert planned.kind.value == "inspection"


def test_cases_details_and_commands(gate: Gate) -> None:
    done = gate.run(
        "--device",
        "cpu",
        test_cases="""
@check("gate0.a.one")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_one(n, device, detail):
    detail({"n": n}, path="native")
    detail(device=device)
    assert n != 2
""",
    )
    assert done.status == 1
    assert gate.outcomes() == {"gate0.a.one": [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED]}
    attempts = gate.facts().attempts
    assert [attempt.case for attempt in attempts] == ["1", "2", "3"]
    assert attempts[1].detail == {"n": 2, "path": "native", "device": "cpu"}
    again = run(shlex.split(attempts[1].command), timeout=60)
    assert again.status == 1
    assert "1 failed" in again.stdout
    whole = run(shlex.split(gate.facts().planned[0].command), timeout=60)
    assert "1 failed, 2 passed" in whole.stdout


def test_a_command_names_the_nodes_that_its_check_met(gate: Gate) -> None:
    done = gate.run(
        "--nodes",
        "/dev/of-releases",
        test_nodes="""
@pytest.fixture
def nodes(pytestconfig): return pytestconfig.getoption("--nodes")
@check("gate0.a.one")
def test_one(nodes): assert str(nodes) == "/dev/of-releases"
@check("gate0.a.two")
def test_two(): pass
""",
    )
    assert done.status == 0, done.stdout
    one, two = (planned.command for planned in gate.facts().planned)
    assert "--nodes /dev/of-releases" in one and "--nodes" not in two


def test_a_detail_that_is_not_json_is_the_tests_error(gate: Gate) -> None:
    gate.run(
        test_detail="""
@check("gate0.a.one")
def test_one(detail): detail(value=float("nan"))
@check("gate0.a.two")
def test_two(detail): detail(value=object())
"""
    )
    assert set(map(tuple, gate.outcomes().values())) == {(Outcome.FAILED,)}
    assert gate.facts().end == 1


def test_no_checks_planned(gate: Gate) -> None:
    assert gate.run(test_none="").status == 5
    facts = gate.facts()
    assert (facts.gate, facts.planned, facts.end) == (None, (), 5)


def test_a_file_that_cannot_be_collected(gate: Gate) -> None:
    done = gate.run(
        test_bad="import nothing_of_this_name",
        test_good='@check("gate0.a.one")\ndef test_one(): pass',
    )
    assert done.status == 2
    facts = gate.facts()
    assert "nothing_of_this_name" in facts.faults[0]
    assert gate.outcomes() == {"gate0.a.one": [Outcome.NOT_RUN]}


GOOD = '@check("gate0.a.one")\ndef test_one(): pass\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def test_one(): pass", "expected one check marker, got 0"),
        (GOOD + '@check("gate0.a.one")\ndef test_two(): pass', "is the id of two tests"),
        (GOOD + '@check("gate1.a.one")\ndef test_two(): pass', "expected one, got [0, 1]"),
        ('@check("gate8.a.one")\ndef test_one(): pass', "expected an id like"),
        ('@check("gate0.A.one")\ndef test_one(): pass', "expected an id like"),
        ('@check("gate0.a.one.b")\ndef test_one(): pass', "expected an id like"),
        ('@check("gate0.a.one", kind="guess")\ndef test_one(): pass', "expected a kind of"),
        ('@check("gate0.a.one", obligations=[])\ndef test_one(): pass', "list of obligation ids"),
        ('@check("gate0.a.one", colour=1)\ndef test_one(): pass', "colour"),
    ],
)
def test_usage_errors(gate: Gate, text: str, message: str) -> None:
    done = gate.run(test_it=text)
    assert done.status == 4
    assert message in done.stdout + done.stderr
    if gate.report.exists():
        assert gate.facts().planned == ()


def test_a_report_is_never_overwritten(gate: Gate) -> None:
    assert gate.run(test_it=GOOD).status == 0
    before = gate.report.read_bytes()
    done = gate.run(test_it=GOOD)
    assert done.status == 4
    assert "Name a new file" in done.stdout + done.stderr
    assert gate.report.read_bytes() == before


def test_a_long_message_keeps_its_end(gate: Gate) -> None:
    gate.run(test_it='@check("gate0.a.one")\ndef test_one(): assert 0, "x" * 50000 + "the end"')
    (attempt,) = gate.facts().attempts
    assert any(attempt.message.rstrip().endswith(end) for end in ("AssertionError", "Error"))
    assert len(attempt.message) < 9000


def test_the_suite_does_not_import_the_library() -> None:
    for path in SUITE.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.strip().startswith(("import qualify", "from qualify")), path
