"""emu-smi over a restart of emud: killed, which leaves the node, or ended, which takes it away."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from device_stack import clean_environment, served

pytestmark = pytest.mark.integration

SMI = "import sys; from emu_runtime.smi import main; sys.exit(main())"
SECONDS = 60


@contextmanager
def smi(site: Path, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SMI, *words],
        env=clean_environment(site, EMU_DEVICE_DIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def await_(said: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + SECONDS
    while (last := said()) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, last said {last}"


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_watch_goes_on(site: Path, socket_folder: Path, end: str) -> None:
    def pid() -> int | None:
        assert watch.stdout is not None
        (device,) = json.loads(watch.stdout.readline() or '{"devices": [{}]}')["devices"]
        return device["properties"]["emud_pid"] if device["properties"] else None

    words = ("--json", "--watch", "0.05")
    with served(site, socket_folder) as first, smi(site, socket_folder, *words) as watch:
        await_(pid, first.pid)
        getattr(first, end)()
        first.wait(20)
        await_(pid, None)
        with served(site, socket_folder) as second:
            await_(pid, second.pid)


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_serve_goes_on(site: Path, socket_folder: Path, end: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def is_up() -> bool:
        try:
            text = opener.open(url, timeout=SECONDS).read().decode()
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return False
        return 'emu_device_up{device="0"} 1' in text

    with served(site, socket_folder) as first, smi(site, socket_folder, "--serve", "0") as serve:
        assert serve.stderr is not None
        url = serve.stderr.readline().split()[-1]
        await_(is_up, True)
        getattr(first, end)()
        first.wait(20)
        await_(is_up, False)
        with served(site, socket_folder):
            await_(is_up, True)
