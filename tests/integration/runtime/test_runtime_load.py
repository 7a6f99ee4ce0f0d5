"""Eight clients at once, some killed at random: the others' results are right, and nothing stays.

EMU_LOAD_COMMANDS is how many commands each of the eight does; EMU_LOAD_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from device_stack import clean_environment, served

pytestmark = pytest.mark.integration

CLIENTS = 8
KILLS = 6
COMMANDS = int(os.environ.get("EMU_LOAD_COMMANDS", "4000"))
SEED = int(os.environ.get("EMU_LOAD_SEED") or random.SystemRandom().getrandbits(32))
LONGEST_SECONDS = 60 + COMMANDS / 100  # a client that takes longer hangs
REPORTS = 20  # of load_client.py
CLIENT = Path(__file__).with_name("load_client.py")


class Footprint(NamedTuple):
    """What clients may have left: in emud, in the device, in folders of the host."""

    contexts: int
    queues: int
    memory_used_bytes: int
    descriptors: int
    threads: int
    mappings: int
    files: tuple[str, ...]


class Shared:
    """A device on a node of its own, for processes started here."""

    def __init__(self, emud: int, site: Path, folder: Path) -> None:
        self.emud = emud
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = clean_environment(
            site, EMU_DEVICE_DIR=str(folder), EMU_PRIVATE="0", TMPDIR=str(self.temporary)
        )

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *words],
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def telemetry(self) -> dict[str, Any]:
        text = (
            "import dataclasses, json, emu_runtime\n"
            "print(json.dumps(dataclasses.asdict(emu_runtime.Device(0).telemetry())))"
        )
        out, err = self.start("-c", text).communicate(timeout=60)
        assert out, err
        return dict(json.loads(out))

    def footprint(self) -> Footprint:
        now = self.telemetry()
        process = Path(f"/proc/{self.emud}")
        files = [*Path("/dev/shm").glob("*emu*"), *self.temporary.iterdir()]
        return Footprint(
            contexts=now["contexts"],
            queues=now["queues"],
            memory_used_bytes=now["memory_used_bytes"],
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
            mappings=(process / "maps").read_text().count("/memfd:emu-"),
            files=tuple(sorted(str(path) for path in files)),
        )


@pytest.fixture
def shared(site: Path, socket_folder: Path) -> Iterator[Shared]:
    with served(site, socket_folder) as emud:
        yield Shared(emud.pid, site, socket_folder)


class Life(NamedTuple):
    """A client: its seed, and after which of its reports and how many seconds it is killed."""

    seed: int
    kill_at: int = 0  # 0: it lives to its end
    delay: float = 0.0


def lives(seed: int) -> list[list[Life]]:
    """For each of the eight, clients that take turns: the killed ones, then one that lives."""
    source = random.Random(seed)
    plan: list[list[Life]] = [[] for _ in range(CLIENTS)]
    for _ in range(KILLS):
        report, delay = source.randrange(1, REPORTS), source.uniform(0, 0.02)
        source.choice(plan).append(Life(source.getrandbits(32), report, delay))
    for turn in plan:
        turn.append(Life(source.getrandbits(32)))
    return plan


def live(shared: Shared, life: Life) -> int:
    """Run one client to its end, or until it is killed; gives how many commands it reported."""
    held = subprocess.PIPE if life.kill_at else subprocess.DEVNULL
    process = shared.start(str(CLIENT), str(life.seed), str(COMMANDS), stdin=held)
    watchdog = threading.Timer(LONGEST_SECONDS, process.send_signal, (signal.SIGABRT,))
    watchdog.start()
    done = 0
    try:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout, 1):
            done = int(line)
            if number == life.kill_at:
                time.sleep(life.delay)
                process.kill()
        _, said = process.communicate()
    finally:
        watchdog.cancel()
    expected = -signal.SIGKILL if life.kill_at else 0
    assert process.returncode == expected, f"{life}: status {process.returncode}: {said}"
    return done


@pytest.mark.timeout(4 * LONGEST_SECONDS)
def test_eight_clients_and_random_kills_leave_nothing(shared: Shared) -> None:
    print(f"EMU_LOAD_SEED={SEED} EMU_LOAD_COMMANDS={COMMANDS}")
    live(shared, Life(0))  # what grows once has grown
    before = shared.footprint()
    commands = shared.telemetry()["commands"]
    begin = time.monotonic()
    plan = lives(SEED)
    with ThreadPoolExecutor(CLIENTS) as pool:
        turns = list(pool.map(lambda turn: [live(shared, life) for life in turn], plan))
    seconds = time.monotonic() - begin
    assert [turn[-1] for turn in turns] == [COMMANDS] * CLIENTS
    assert sum(life.kill_at > 0 for turn in plan for life in turn) == KILLS
    deadline = time.monotonic() + 20  # emud finds that a killed client is gone a moment later
    while (after := shared.footprint()) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert after == before
    run = shared.telemetry()["commands"] - commands
    assert run >= COMMANDS * CLIENTS
    print(
        f"{CLIENTS} clients did {COMMANDS} commands each, {KILLS} more were killed: "
        f"the device ran {run} commands in {seconds:.1f} s"
    )
