"""The bring-up subgraph, run eagerly and compared with a reference in f64."""

from __future__ import annotations

from collections.abc import Callable

import accounting
import pytest
import subgraph
import torch
from tolerances import tolerance


@pytest.mark.check("gate2.subgraph.eager", obligations=["B5", "G2"], kind="focused test")
def test_eager(device: str, detail: Callable[..., None]) -> None:
    """Forward or backward of a small model does not run on the device."""
    before = accounting.measure(device)
    outcome = subgraph.run(device)
    account = accounting.since(device, before)
    detail(account.summary(), seed=subgraph.SEED, loss=outcome.loss.item())
    assert len(outcome.gradients) == 4
    assert all(bool(tensor.isfinite().all()) for tensor in (outcome.scores, *outcome.gradients))
    if device != "cpu":
        assert account.ways.get("fallback", {}) == {}
        assert account.total("native") > 0


@pytest.mark.check("gate2.subgraph.reference", obligations=["B7", "G2", "N1"], kind="focused test")
def test_reference(device: str, detail: Callable[..., None]) -> None:
    """Scores or gradients are off by more than rounding explains."""
    exact, cpu = subgraph.run("cpu", torch.float64), subgraph.run("cpu")
    got = subgraph.run(device)
    part = (got.scores.double() - exact.scores).abs() / subgraph.score_bound()
    rows = {}
    for (name, _), ours, theirs, truth in zip(
        subgraph.model().named_parameters(),
        got.gradients,
        cpu.gradients,
        exact.gradients,
        strict=True,
    ):
        distance = (ours.double() - truth).norm().item()
        allowed = tolerance("gradient").value * (theirs.double() - truth).norm().item()
        rows[name] = {"distance": distance, "allowed": allowed}
    detail(
        seed=subgraph.SEED,
        scores_part_of_bound=part.max().item(),
        gradients=rows,
        tolerances={n: tolerance(n)._asdict() for n in ("log_softmax", "gradient")},
    )
    assert part.max().item() <= tolerance("log_softmax").value
    assert all(row["distance"] <= row["allowed"] for row in rows.values()), rows
