"""The fallback policy does what it says, and its counters see what happens."""

from __future__ import annotations

import json

import pytest
import torch
from child import run_python

# Takes an operator that no device program exists for, in a process of its own policy.
FALL_BACK = """
import json, sys, warnings, torch
x = torch.linspace(0, 1, 5).to(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = torch.special.bessel_j0(x)
    z = torch.special.bessel_j0(x)
expected = torch.special.bessel_j0(torch.linspace(0, 1, 5))
counts = torch.get_device_module(sys.argv[1]).execution_counts()["fallback"]
print(json.dumps({
    "right": bool(torch.equal(y.cpu(), expected)) and y.device.type == sys.argv[1],
    "counts": counts,
    "warnings": [str(w.message) for w in caught],
}))
"""


@pytest.mark.check("gate2.fallback.strict_raises", obligations=["G2", "Q3"], kind="focused test")
def test_strict(accelerator: str) -> None:
    """Strict mode lets an operator run on the host, or its error does not say what to do."""
    with pytest.raises((RuntimeError, NotImplementedError)) as raised:
        torch.special.bessel_j0(torch.ones(3, device=accelerator))
    text = str(raised.value)
    assert "special_bessel_j0" in text
    assert "TORCH_EMU_FALLBACK" in text
    assert all(word in text for word in ("error", "warn", "allow")), text


@pytest.mark.check("gate2.fallback.counted", obligations=["G2", "Q3"], kind="focused test")
@pytest.mark.parametrize("policy", ["allow", "warn"])
def test_counted(accelerator: str, policy: str) -> None:
    """A fallback gives a wrong value, is not counted, or warns where it should not."""
    done = run_python(FALL_BACK, accelerator, env={"TORCH_EMU_FALLBACK": policy})
    assert done.status == 0, done.told
    seen = json.loads(done.stdout)
    assert seen["right"], done.told
    assert sum(n for name, n in seen["counts"].items() if "bessel_j0" in name) == 2, seen
    told = [text for text in seen["warnings"] if "bessel_j0" in text]
    assert len(told) == (1 if policy == "warn" else 0), seen["warnings"]


# A type that the device lacks, in an operator that it has.
UNSUPPORTED = """
import json, sys, torch
x = torch.tensor([1 + 2j, 3 - 1j])
y = torch.add(x.to(sys.argv[1]), x.to(sys.argv[1]))
counts = torch.get_device_module(sys.argv[1]).execution_counts()
print(json.dumps({
    "right": bool(torch.equal(y.cpu(), x + x)) and y.device.type == sys.argv[1],
    "fallback": counts["fallback"].get("aten::add.Tensor", 0),
    "native": counts["native"].get("aten::add.Tensor", 0),
}))
"""


@pytest.mark.check(
    "gate2.fallback.unsupported_dtype", obligations=["G2", "Q3"], kind="focused test"
)
def test_unsupported_dtype(accelerator: str) -> None:
    """A native operator refuses a type under `allow`, or counts as native what the host ran."""
    done = run_python(UNSUPPORTED, accelerator, env={"TORCH_EMU_FALLBACK": "allow"})
    assert done.status == 0, done.told
    seen = json.loads(done.stdout)
    assert seen == {"right": True, "fallback": 1, "native": 0}, done.told
    strict = run_python(UNSUPPORTED, accelerator, env={"TORCH_EMU_FALLBACK": "error"})
    assert strict.status != 0
    assert all(
        word in strict.stderr for word in ("aten::add.Tensor", "ComplexFloat", "TORCH_EMU_FALLBACK")
    ), strict.told
