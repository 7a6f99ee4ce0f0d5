"""Parts of three releases beside each other: each meeting works as compat.toml says, or says why.

Each part is unpacked by itself, as no installer would let most of these together: it is what
`--no-deps`, a container's image and its host, or two search paths bring about.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child import run_python
from gate7_release.environments import start
from gate7_release.hosts import device_of
from gate7_release.releases import NAMES, Releases

PARTS = ("driver", "runtime", "plugin")
NUMBERS = re.compile(r"\d+\.\d+")


@pytest.fixture(scope="module")
def unpacked(
    releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    """The folder that has a part of a release and nothing else, by part and release."""
    root = tmp_path_factory.mktemp("parts")
    folders: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for release, part in itertools.product(releases[:3], PARTS):
        folder = root / f"{part}-{release.name}"
        words = ["uv", "pip", "install", "--no-deps", "--target", folder, getattr(release, part)]
        done = start(sys.executable, "-m", *words)
        assert done.status == 0, done.told
        folders[part][release.name] = str(folder)
    return folders


MEET = """
import itertools, json, os, sys
import torch
folders = json.loads(sys.argv[1])
for names in itertools.product(*folders.values()):
    child = os.fork()
    if child == 0:
        sys.path[:0] = [folders[part][name] for part, name in zip(folders, names)]
        try:
            import torch_emu
            total = torch.ones(8, device="emu").add(1).sum().item()
            said = ["works" if total == 16 else f"wrong: {total}", ""]
        except RuntimeError as error:
            said = [type(error.__cause__ or error).__name__, str(error)]
        print(json.dumps([names, *said]), flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        print(json.dumps([names, "died", f"status {status}"]), flush=True)
"""
"""torch is imported once; each combination meets in a process of its own."""


@pytest.mark.check("gate7.skew.parts", obligations=["C1", "C3", "Q9"], kind="focused test")
def test_parts(
    unpacked: dict[str, dict[str, str]], releases: Releases, detail: Callable[..., None]
) -> None:
    """A part beside another of a different release crashes, or computes something else."""
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = run_python(MEET, json.dumps(unpacked), env=off)
    assert done.status == 0, done.told
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(NAMES) ** len(PARTS), done.told
    detail(outcomes={"-".join(names): said for names, said, _ in lines})
    for names, said, text in lines:
        where = f"{dict(zip(PARTS, names, strict=True))}: {said}: {text}"
        driver, runtime, plugin = names
        meetings = [("runtime", runtime, "driver", driver), ("plugin", plugin, "runtime", runtime)]
        # The runtime meets the driver first: what does not work there is what is told.
        refused = [m for m in meetings if not works(releases, *m)]
        if not refused:
            assert said == "works", where
        else:
            asks, of, serves, by = refused[0]
            assert said == meeting(releases, asks, serves)["error"], where
            numbers = NUMBERS.findall(text)
            assert number(releases, serves, of) in numbers, f"what is asked for: {where}"
            assert number(releases, serves, by) in numbers, f"what there is: {where}"
            assert "pip install" in text, f"what to do: {where}"


OPEN = """
import emu_runtime
from emu_runtime.errors import EmuError
try:
    device = emu_runtime.Device(0)
    address = device.alloc(16)
    device.write(address, b"of another host.")
    same = device.read(address, 16) == b"of another host."
    print("works" if same else "wrong")
except EmuError as error:
    print(type(error).__name__, error, sep="\\n")
"""


@pytest.mark.check("gate7.skew.device", obligations=["C1", "C3", "C4"], kind="focused test")
@pytest.mark.parametrize("host", NAMES)
def test_device(
    host: str,
    tmp_path: Path,
    unpacked: dict[str, dict[str, str]],
    releases: Releases,
    nodes: Path | None,
    detail: Callable[..., None],
) -> None:
    """In a container whose driver is of another release than the host's, the device is not found,
    or a call means something else there."""
    with device_of(host, nodes, Path(unpacked["driver"][host]), tmp_path) as (folder, where_it_is):
        detail(device=where_it_is)
        for name in NAMES:
            path = f"{unpacked['driver'][name]}:{unpacked['runtime'][name]}"
            env = {"PYTHONPATH": path, "EMU_DEVICE_DIR": str(folder)}
            done = run_python(OPEN, env=env)
            said, _, text = done.stdout.partition("\n")
            detail({name: said})
            where = f"{name} on a host with {host}: {done.told}"
            assert done.status == 0, where
            if works(releases, "driver", name, "emud", host):
                assert said == "works", where
            else:
                assert said == meeting(releases, "driver", "emud")["error"], where
                numbers = NUMBERS.findall(text)
                assert number(releases, "driver", name) in numbers, f"what is asked for: {where}"
                assert number(releases, "driver", host) in numbers, f"what there is: {where}"


def meeting(releases: Releases, asks: str, serves: str) -> dict[str, Any]:
    found = [m for m in releases.compat["meetings"] if (m["asks"], m["serves"]) == (asks, serves)]
    assert len(found) == 1, f"compat.toml says nothing, or twice, of {asks} and {serves}"
    return dict(found[0])


def works(releases: Releases, asks: str, of: str, serves: str, by: str) -> bool:
    return bool(meeting(releases, asks, serves)[of][NAMES.index(by)])


def number(releases: Releases, interface: str, release: str) -> str:
    """The interface of driver or runtime that a release has; that of here is what wheels say."""
    for neighbour in releases.compat["neighbours"]:
        if neighbour["name"] == release:
            return str(neighbour[f"{interface}_interface"])
    return here(releases)[interface]


def here(releases: Releases) -> dict[str, str]:
    """The interfaces of the release under test, as its runtime's wheel has them in its data."""
    with zipfile.ZipFile(releases.here.runtime) as wheel:
        data = json.loads(wheel.read("emu_runtime/interface.json"))
    return {name: ".".join(map(str, data[name])) for name in ("driver", "runtime")}
