"""Seeded faults: for each check of the gates, the smallest break that it has to notice.

A pytest plugin (`-p seeds`). It puts the seed of each check in place just before the check
runs and takes it away afterwards, so that one run shows a whole gate failing. A check without
a seed is a usage error. Checks in `ALONE` share expensive state, and are run one at a time.
"""

from __future__ import annotations

import pytest

from seeds import gate0, gate1, gate2, gate3, gate7
from seeds.seed import Seed

SEEDS: dict[str, Seed] = {
    **gate0.SEEDS,
    **gate1.SEEDS,
    **gate2.SEEDS,
    **gate3.SEEDS,
    **gate7.SEEDS,
}
ALONE = gate2.ALONE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ids = {marker.args[0] for item in items for marker in item.iter_markers("check")}
    if missing := sorted(ids - set(SEEDS)):
        raise pytest.UsageError(f"no seeded fault for {', '.join(missing)}")


@pytest.fixture(autouse=True)
def seeded_fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break what the check looks at."""
    (marker,) = request.node.iter_markers("check")
    SEEDS[marker.args[0]](monkeypatch)
