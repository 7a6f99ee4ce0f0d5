"""The gate protocol: what a gate plans is written down before it runs, then a line per check.

This plugin runs inside a room, with pytest and the installed wheels and nothing else; it
never imports the library that sent it there. A test is a check when it carries

    @pytest.mark.check("gate0.identity.read", obligations=["B2"], kind="focused test")

with an id of the form `gateN.noun.check`. A test without the marker, an id used by two
tests, an unknown kind, or checks of two gates in one report is a usage error. A
parametrised test is one check with one *case* a parameter set: it passes if every case does.

`--report FILE` (which must not exist) gets JSON Lines, each on the disk before the next
thing happens:

    {"event": "plan", "protocol": 1, "gate": 0, "device": "emu", "faults": [], "checks":
        [{"id": ..., "obligations": [...], "kind": ..., "cases": [""], "command": ...}]}
    {"event": "start", "id": ..., "case": "", "attempt": 1}
    {"event": "check", "id": ..., "case": "", "attempt": 1, "outcome": "passed",
        "seconds": 0.1, "message": "", "detail": {}, "command": ...}
    {"event": "end", "status": 0}

A process that dies in a check leaves a start without a check line; one that plans nothing
leaves an empty plan; neither can be taken for a pass. `gate` is null where nothing was
planned. `faults` are the files that could not be collected. `command` runs one check, or
one case, again in the room. `--device NAME` is what the `device` fixture gives, and the
`detail` fixture attaches figures, the seed, the path that ran and the first mismatching
values to the check's line. Gates run strict: an operator that falls back to the host raises.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

PROTOCOL = 1
ID = re.compile(r"gate([0-7])\.[a-z0-9_]+\.[a-z0-9_]+")
KINDS = ("specification", "inspection", "focused test", "workload result")
MESSAGE_LIMIT = 8000  # characters; the end of a traceback says more than its start

# Here, and not in the pipeline, so that a check's command reproduces it as it is.
os.environ.setdefault("TORCH_EMU_FALLBACK", "error")

_DETAIL = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gate")
    group.addoption("--device", default="emu", help="the PyTorch device to qualify")
    group.addoption(
        "--configurations",
        default="A0/1.0.0/nominal",
        help="STEPPING/FIRMWARE/POWER_MODE,... of the device: gate 0 goes over each",
    )
    group.addoption("--releases", type=Path, help="a folder of wheels before, here, after: gate 7")
    group.addoption(
        "--nodes",
        type=Path,
        help="a folder of nodes before, here, after, of devices that emud of each release serves "
        "in another container: gate 7",
    )
    group.addoption("--report", type=Path, help="write the gate protocol to this new file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "check(id, obligations, kind): what this test shows, and how it is counted"
    )
    config.pluginmanager.register(Protocol(config), "gate-protocol")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device that is qualified: `emu`, or another backend's name."""
    return str(request.config.getoption("--device"))


@pytest.fixture
def detail(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`detail(seed=1, path="native")` adds JSON values to this check's line; NaN as text."""
    kept = request.node.stash.setdefault(_DETAIL, {})

    def add(figures: dict[str, Any] | None = None, **more: Any) -> None:
        new = {**(figures or {}), **more}
        json.dumps(new, allow_nan=False)  # refuse here, where the test can be blamed
        kept.update(new)

    return add


class Check:
    """What the marker of one test says, and the command that runs it again."""

    def __init__(self, item: pytest.Item, device: str) -> None:
        where = item.nodeid
        markers = list(item.iter_markers("check"))
        if len(markers) != 1:
            raise pytest.UsageError(
                f"{where}: expected one check marker, got {len(markers)}. "
                'Add @pytest.mark.check("gateN.noun.check", obligations=[...], kind=...)'
            )
        try:
            self.id, self.obligations, self.kind = _arguments(*markers[0].args, **markers[0].kwargs)
        except (TypeError, ValueError) as error:
            raise pytest.UsageError(f"{where}: check marker: {error}") from None
        callspec = getattr(item, "callspec", None)
        self.case: str = callspec.id if callspec else ""
        # Test functions of one name in two files are two tests, whatever their cases.
        self.function = where[: -len(self.case) - 2] if callspec else where
        file, _, name = where.partition("::")
        given = ["--device", device]
        fixtures = set(getattr(item, "fixturenames", ()))
        if {"configuration", "every_configuration"} & fixtures:
            given += ["--configurations", item.config.getoption("--configurations")]
        if "releases" in fixtures:
            given += ["--releases", str(item.config.getoption("--releases"))]
        if "nodes" in fixtures and (nodes := item.config.getoption("--nodes")):
            given += ["--nodes", str(nodes)]
        self.command = _command(item.config.rootpath / file, name, given)
        self.whole = _command(item.config.rootpath / file, self.function.partition("::")[2], given)


def _arguments(id: str, *, obligations: list[str], kind: str) -> tuple[str, list[str], str]:
    if not isinstance(id, str) or not ID.fullmatch(id):
        raise ValueError(f"expected an id like gate0.identity.read, got {id!r}")
    if kind not in KINDS:
        raise ValueError(f"expected a kind of {', '.join(KINDS)}, got {kind!r}")
    if not obligations or not all(isinstance(name, str) for name in obligations):
        raise ValueError(f"expected a list of obligation ids, got {obligations!r}")
    return id, list(obligations), kind


def _command(file: Path, name: str, options: list[str]) -> str:
    return shlex.join([sys.executable, "-m", "pytest", f"{file}::{name}", *options])


class Protocol:
    """Writes the report as pytest's hooks come by."""

    def __init__(self, config: pytest.Config) -> None:
        self.device: str = config.getoption("--device")
        self.path: Path | None = config.getoption("--report")
        self.file: int | None = None
        self.checks: dict[str, Check] = {}  # by node id
        self.faults: list[str] = []
        self.attempts: Counter[str] = Counter()
        self.phases: dict[str, list[pytest.TestReport]] = {}

    def write(self, **event: Any) -> None:
        if self.file is None:
            return
        # Half of a surrogate pair is no character, and a reader refuses the whole line for it.
        text = json.dumps(event, allow_nan=False, ensure_ascii=False) + "\n"
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self.file, data) :]
        os.fsync(self.file)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.faults.append(f"{report.nodeid}: {_shorten(report.longreprtext)}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check the markers, then write the plan: before any test runs."""
        self.checks = {item.nodeid: Check(item, self.device) for item in session.items}
        plan: dict[str, dict[str, Any]] = {}
        functions: dict[str, str] = {}
        for check in self.checks.values():
            if functions.setdefault(check.id, check.function) != check.function:
                raise pytest.UsageError(
                    f"{check.id} is the id of two tests, {functions[check.id]} and "
                    f"{check.function}. Each check has an id of its own"
                )
            entry = plan.setdefault(
                check.id,
                {
                    "id": check.id,
                    "obligations": check.obligations,
                    "kind": check.kind,
                    "cases": [],
                    "command": check.whole,
                },
            )
            entry["cases"].append(check.case)
        gates = sorted({int(id[4]) for id in plan})
        if self.path is None:
            return
        if len(gates) > 1:
            raise pytest.UsageError(f"a report is about one gate: expected one, got {gates}")
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        except FileExistsError:
            raise pytest.UsageError(f"{self.path} exists. Name a new file for --report") from None
        self.write(
            event="plan",
            protocol=PROTOCOL,
            gate=gates[0] if gates else None,
            device=self.device,
            faults=self.faults,
            checks=list(plan.values()),
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        check = self.checks[item.nodeid]
        self.attempts[item.nodeid] += 1
        run = {"id": check.id, "case": check.case, "attempt": self.attempts[item.nodeid]}
        self.phases[item.nodeid] = []
        self.write(event="start", **run)
        start = time.monotonic()
        result = yield
        outcome, message = _outcome(self.phases.pop(item.nodeid))
        self.write(
            event="check",
            **run,
            outcome=outcome,
            seconds=round(time.monotonic() - start, 6),
            message=message,
            detail=item.stash.get(_DETAIL, {}),
            command=check.command,
        )
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.phases.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.write(event="end", status=int(exitstatus))


def _outcome(phases: list[pytest.TestReport]) -> tuple[str, str]:
    """One of the outcomes, and why, from the reports of setup, call and teardown."""
    outcome, message = "error", "pytest reported nothing of this test"
    for report in phases:
        expected = getattr(report, "wasxfail", None)
        if report.failed:
            if report.when == "call" and report.longreprtext.startswith("[XPASS(strict)]"):
                return "unexpected pass", _shorten(report.longreprtext)
            # A check that failed and could not clean up has failed.
            if outcome != "failed":
                outcome = "failed" if report.when == "call" else "error"
                message = _shorten(report.longreprtext)
        elif report.skipped:
            outcome = "skipped" if expected is None else "expected failure"
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else expected
            message = _shorten(str(why or report.longreprtext))
        elif report.when == "call":
            outcome = "passed" if expected is None else "unexpected pass"
            message = expected or ""
    return outcome, message


def _shorten(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else "... " + text[-MESSAGE_LIMIT:]
