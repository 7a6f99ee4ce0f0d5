"""Facts of wheels that a test makes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from broken_wheels import good
from broken_wheels.defect import policy

from qualify.audit import wheel
from qualify.audit.policy import Audit
from qualify.audit.wheel import Wheel

AUDIT = policy()


def facts_of(made: good.Wheel, audit: Audit = AUDIT) -> Wheel:
    with tempfile.TemporaryDirectory() as place:
        return wheel.read(made.write(Path(place)), audit)
