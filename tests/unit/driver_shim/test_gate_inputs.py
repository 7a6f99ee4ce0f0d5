"""What gate 0 was given of the specification is what it says: it runs where that is not."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from programs import COSTS, OPS

from qualify.process import run

ROOT = Path(__file__).parents[3]
GATE = ROOT / "tests" / "gates" / "gate0_health"


@pytest.mark.parametrize(
    ("name", "version", "rollback_index", "interface"),
    [
        ("same-index", "1.1.0", "1", "1.0"),
        ("higher-index", "1.2.0", "2", "1.0"),
        ("newer-driver", "1.3.0", "1", "1.999"),
    ],
)
def test_images_are_what_the_tool_makes(
    tmp_path: Path, name: str, version: str, rollback_index: str, interface: str
) -> None:
    tool, out = str(ROOT / "driver_shim" / "tools" / "firmware_image.py"), tmp_path / "image"
    words = ["--version", version, "--rollback-index", rollback_index, "--interface", interface]
    assert run([sys.executable, tool, *words, str(out)]).ok
    assert out.read_bytes() == (GATE / "firmware" / f"{name}.img").read_bytes()


def test_each_image_has_its_test() -> None:
    assert len(list((GATE / "firmware").iterdir())) == 3


def test_errata_and_bounds_are_those_of_the_specification() -> None:
    stated = runpy.run_path(str(GATE / "stated.py"))
    assert stated["ERRATA"] == {one["name"]: one["errata"] for one in COSTS["stepping"]}
    assert stated["BOUNDS"] == {
        name: (op["ulp"]["f32"], op["ulp"]["f64"])
        for name, op in OPS.items()
        if "ulp" in op and len(op["operands"]) == 2
    }
