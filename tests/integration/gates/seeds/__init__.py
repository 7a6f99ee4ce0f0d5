"""Seeded faults: for each check of the gates, the smallest break that it has to notice.

A pytest plugin (`-p seeds`). It puts the seed of each check in place just before the check
runs and takes it away afterwards, so that one run shows a whole gate failing. A check without
a seed is a usage error. Checks in `ALONE` share expensive state, and are run one at a time.
"""

from __future__ import annotations

import pytest

from seeds import caches, gate0, gate1, gate2, gate3, gate7, mixed, scenarios
from seeds.seed import Seed

SEEDS: dict[str, Seed] = {
    **gate0.SEEDS,
    **gate1.SEEDS,
    **gate2.SEEDS,
    **gate3.SEEDS,
    **gate7.SEEDS,
    **scenarios.SEEDS,
    **caches.SEEDS,
    **mixed.SEEDS,
}
ALONE = gate2.ALONE
PATCH = pytest.StashKey[pytest.MonkeyPatch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed-alone", help="run this check only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    alone = config.getoption("--seed-alone")
    by_id = {item: marker.args[0] for item in items for marker in item.iter_markers("check")}
    if missing := sorted(set(by_id.values()) - set(SEEDS)):
        raise pytest.UsageError(f"no seeded fault for {', '.join(missing)}")
    items[:] = [
        item for item in items if (by_id[item] == alone if alone else by_id[item] not in ALONE)
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Break what the check looks at, before its fixtures look."""
    (marker,) = item.iter_markers("check")
    item.stash[PATCH] = pytest.MonkeyPatch()
    SEEDS[marker.args[0]](item.stash[PATCH])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.stash[PATCH].undo()
