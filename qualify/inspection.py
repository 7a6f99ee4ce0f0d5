"""Inspection of the wheels that were built, before anything runs on them.

It denies, or says nothing: that there is no finding shows no obligation.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import msgspec

from qualify import evidence
from qualify.audit import report
from qualify.audit.finding import Finding, kinds
from qualify.audit.policy import Audit
from qualify.audit.report import Report
from qualify.build import Wheel
from qualify.claim import Denial
from qualify.content import code_of
from qualify.stage import Stages
from qualify.wheelhouse import Closure

REPORT = "report.json"


def judges() -> str:
    """The releases of the libraries on whose knowledge findings depend."""
    return " ".join(f"{name} {version(name)}" for name in ("abi3info", "auditwheel", "packaging"))


def audit_wheels(
    stages: Stages, audit: Audit, wheels: tuple[Wheel, ...], closure: Closure
) -> list[Report]:
    """What inspection finds in the wheels, beside all that is installed with them."""
    inputs = {
        "wheels": " ".join(wheel.sha256 for wheel in wheels),
        "beside": closure.sha256,
        "policy": evidence.digest(msgspec.json.encode(audit, order="deterministic")),
        "code": code_of("audit"),
        "knows": judges(),
    }

    def make(folder: Path) -> None:
        found = report.audit_together(
            [wheel.path for wheel in wheels], audit, beside=sorted(closure.folder.glob("*.whl"))
        )
        (folder / REPORT).write_bytes(msgspec.json.encode(found))

    made = stages.make("audit", inputs, make)
    return msgspec.json.decode((made.path / REPORT).read_bytes(), type=list[Report])


def denials(reports: list[Report], audit: Audit) -> tuple[Denial, ...]:
    """One for each kind of finding of a wheel that the policy denies."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for each in reports:
        for finding in each.findings:
            if kinds()[finding.id].level in audit.denies:
                found.setdefault((finding.wheel, finding.id), []).append(finding)
    return tuple(
        Denial(
            what=f"audit: {id} in {wheel}: {several[0].where}: {several[0].got}"
            + (f" and {len(several) - 1} more" if len(several) > 1 else ""),
            mend=kinds()[id].mend,
        )
        for (wheel, id), several in found.items()
    )
