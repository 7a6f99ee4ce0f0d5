"""The whole table of defects, in the groups that the comparison counts by."""

from __future__ import annotations

import warnings
from pathlib import Path

from broken_wheels import archives, binaries, texts
from broken_wheels.defect import Defect, policy
from broken_wheels.good import Wheel
from qualify.audit import report
from qualify.audit.finding import Finding

GROUPS = {
    "archive": archives.DEFECTS,
    "metadata": [*texts.NAMES, *texts.WHEEL, *texts.METADATA],
    "RECORD": texts.RECORD,
    "content": texts.CONTENT,
    "compiled code": binaries.DEFECTS,
}
DEFECTS = [defect for defects in GROUPS.values() for defect in defects]


def written(wheel: Wheel, place: Path) -> Path:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate name", UserWarning)
        return wheel.write(place)


def audited(defect: Defect, wheel: Path) -> tuple[Finding, ...]:
    return report.audit(wheel, defect.policy(policy())).findings
