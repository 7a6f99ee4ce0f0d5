"""Installs that no resolver would leave: emu-diag says what they are made of and what mends them.

What it says to run is run, and the release is whole again.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from gate7_release.environments import Environment, installer, make, pip, start, uv, works
from gate7_release.installed import DISTRIBUTIONS
from gate7_release.releases import PARTS, Release, Releases
from gate7_release.test_install import REFUSES
from gate7_release.test_skew import works as meet
from gate7_release.trees import differences


def diagnosed(environment: Environment) -> dict[str, dict[str, Any]]:
    done = start(environment.root / "bin" / "emu-diag", "--json")
    assert done.status in (0, 1), done.told
    return {step["name"]: step for step in json.loads(done.stdout)["steps"]}


def mend(environment: Environment, told: str, releases: Releases, to: Release) -> None:
    """Do what is told, where each release can be had: `to` is installed, whole, and works."""
    run, *words = shlex.split(told)
    assert [run, *words[:2]] == ["Run:", "pip", "install"], told
    links = [f"--find-links={release.folder}" for release in releases[:3]]
    done = pip(environment, "install", *links, *words[2:])
    assert done.status == 0, done.told
    assert differences(environment, *to.wheels) == []
    works(environment)


@pytest.mark.check("gate7.diagnosis.mixed", obligations=["C3", "I2", "I7"], kind="focused test")
@pytest.mark.parametrize(
    ("part", "of"),
    [("driver", "before"), ("driver", "after"), ("runtime", "before"), ("plugin", "after")],
)
def test_mixed(part: str, of: str, tmp_path: Path, releases: Releases) -> None:
    """`--no-deps` put a part of another release beside the rest, and emu-diag does not tell."""
    environment = make(tmp_path / "venv")
    assert installer(environment, *releases.here.wheels).status == 0
    other = getattr(releases, of)
    assert uv(environment, "install", "--no-deps", getattr(other, part)).status == 0
    beside = {**dict.fromkeys(PARTS, releases.here), part: other}
    steps = diagnosed(environment)
    step = steps["interface versions"]
    for name, release in zip(DISTRIBUTIONS, beside.values(), strict=True):
        assert f"{name} {release.version}" in json.dumps(step), step
    driver, runtime, plugin = (release.name for release in beside.values())
    if meet(releases, "runtime", runtime, "driver", driver) and meet(
        releases, "plugin", plugin, "runtime", runtime
    ):
        assert {each["outcome"] for each in steps.values()} == {"passed"}, steps
        assert "mixed" in step["figures"], step
        works(environment)
    else:
        assert step["outcome"] == "failed", step
        mend(environment, step["mend"], releases, to=beside["plugin"])


@pytest.mark.check("gate7.diagnosis.unrecorded", obligations=["I7", "I8"], kind="focused test")
def test_unrecorded(tmp_path: Path, releases: Releases) -> None:
    """A kill left a part without a RECORD, and what the messages say to run is refused by pip."""
    here = releases.here
    environment = make(tmp_path / "venv")
    assert installer(environment, *here.wheels).status == 0
    (environment.site / f"emu_runtime-{here.version}.dist-info" / "RECORD").unlink()
    library = environment.site / "emu_runtime" / "lib" / "libemurt.so"
    library.write_bytes(library.read_bytes()[:4096])
    step = diagnosed(environment)["files intact"]
    assert step["outcome"] == "failed" and "RECORD" in step["cause"], step
    refused = environment.run(REFUSES)
    assert refused.status == 0 and step["mend"] in refused.stdout, refused.told
    mend(environment, step["mend"], releases, to=here)
