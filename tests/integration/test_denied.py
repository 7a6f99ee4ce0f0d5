"""Wheels that the policy denies: refused from source to verdict, and no room is made for them."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pytest
from checkout import copied
from engines import PYTHON
from rich.console import Console

from qualify import pipeline, show
from qualify.matrix import Layer
from qualify.stage import Stages

pytestmark = pytest.mark.integration

TODAY = datetime.date(2026, 1, 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout, with a budget that the driver's wheel cannot keep."""
    copy = copied(tmp_path / "tree")
    policy = copy / "matrix" / "policy.toml"
    text = policy.read_text()
    assert text.count("largest_bytes = 4_000_000") == 1
    policy.write_text(text.replace("largest_bytes = 4_000_000", "largest_bytes = 4_000"))
    return copy


def test_the_verdict_is_a_refusal_with_the_finding(
    tree: Path, tmp_path: Path, stages: Stages
) -> None:
    kept = tmp_path / "evidence"
    verdict = pipeline.qualify(
        tree, kept, stages, python=PYTHON, tier="experimental", room="auto", today=TODAY
    )
    assert not verdict.claim
    (reason,) = verdict.reasons
    assert reason.layer is Layer.PACKAGE
    assert reason.what.startswith("audit: size-over in emu_driver_shim-0.1.0-py3-none-")
    assert not (kept / "records").exists()
    assert [path.name for path in (kept / "verdicts").iterdir()]
    console = Console(file=io.StringIO(), width=100)
    console.print(show.render(verdict))
    assert isinstance(console.file, io.StringIO)
    assert "size-over" in console.file.getvalue() and "REFUSED" in console.file.getvalue().upper()
