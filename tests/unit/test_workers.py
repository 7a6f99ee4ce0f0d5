"""Gates side by side: records and errors come back, and a stop reaches each of them."""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import msgspec
import pytest
from test_gate import inputs

from qualify import workers
from qualify.engine import Engine, RoomKind
from qualify.errors import BuildError, ChangedError, HostError, InputError, QualifyError, of_status
from qualify.gate import Inputs
from qualify.workers import Workers


@pytest.fixture
def given(tmp_path: Path) -> Inputs:
    (tmp_path / "gate0_health").mkdir()
    (tmp_path / "gate0_health" / "test_a.py").write_text("")
    return inputs(tmp_path)


def test_no_more_than_so_many_go_on_at_once() -> None:
    going, most, over = 0, 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal going, most, over
        with lock:
            going += 1
            most = max(most, going)
        time.sleep(0.05)
        with lock:
            going -= 1
            over += 1

    with Workers(3) as crew:
        for _ in range(9):
            crew.submit(work)
    assert (most, over) == (3, 9)


def test_an_error_starts_nothing_more_and_comes_through() -> None:
    started = []

    def fail() -> None:
        started.append("fail")
        raise BuildError("of this one")

    with pytest.raises(BuildError, match="of this one"), Workers(1) as crew:
        crew.submit(fail)
        crew.submit(lambda: started.append("next"))
    assert started == ["fail"]


def test_an_error_at_the_end_comes_through() -> None:
    def fail() -> None:
        time.sleep(0.05)
        raise BuildError("late")

    with pytest.raises(BuildError, match="late"), Workers(2) as crew:
        crew.submit(fail)


def test_the_error_of_a_gate_is_as_it_was_raised(given: Inputs, tmp_path: Path) -> None:
    """The suite changes between plan and run: its own class, with what was expected and got."""
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"")
    given = msgspec.structs.replace(given, wheels=(wheel,))
    with pytest.raises(ChangedError) as caught, Workers(1) as crew:
        crew.submit(lambda: crew.run(given) and None)
    assert caught.value.expected == "1" * 64
    assert caught.value.got.startswith("e3b0c442")
    assert "Run again when nothing writes to it" in caught.value.mend


def test_what_the_system_refuses_a_gate_is_an_error_of_the_host(given: Inputs) -> None:
    with pytest.raises(HostError, match=r"a\.whl"), Workers(1) as crew:
        crew.submit(lambda: crew.run(given) and None)


def test_a_room_that_cannot_be_opened_is_a_record(given: Inputs, tmp_path: Path) -> None:
    """As it is in this process: the record comes back, with its fault."""
    engine = Engine(kind=RoomKind.DOCKER, endpoint=f"unix://{tmp_path}/none.sock")
    spec = msgspec.structs.replace(given.room, engine=engine)
    (tmp_path / "a.whl").write_bytes(b"")
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    given = msgspec.structs.replace(
        given, room=spec, wheels=(tmp_path / "a.whl",), digests={"a.whl": nothing}
    )
    found = []
    with pytest.raises(QualifyError, match="does not answer"), Workers(1) as crew:
        crew.submit(lambda: found.append(crew.run(given)))
    assert found == []


SLEEPER = "import sys; sys.stdin.read(); import time; time.sleep(600)"
DIES = "import sys; print('why', file=sys.stderr); sys.exit(3)"
DEAF = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "time.sleep(2)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
    "sys.stdin.read(), time.sleep(60)"
)
KILLER = "import os; os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("worker", [SLEEPER, DEAF])
def test_a_stop_ends_all_of_them(
    worker: str, given: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_WORKER", [sys.executable, "-c", worker])
    start, before = time.monotonic(), children()  # other tests may have some
    told: list[type[BaseException]] = []

    def work() -> None:
        try:
            crew.run(given)
        except BaseException as error:
            told.append(type(error))
            raise

    with pytest.raises(KeyboardInterrupt), Workers(2) as crew:
        for _ in range(2):
            crew.submit(work)
        while len([pid for pid in children() - before if worker is SLEEPER or is_deaf(pid)]) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert time.monotonic() - start < 30
    assert children() <= before
    assert told == [CancelledError] * 2, "somebody else's kill is told, and not ours"


def is_deaf(pid: int) -> bool:
    """Whether it ignores SIGTERM, by proc(5)."""
    (line,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(line, 16) >> (signal.SIGTERM - 1) & 1)


def children() -> set[int]:
    """Processes that any of our threads started."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def test_a_process_that_dies_is_told(given: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_WORKER", [sys.executable, "-c", DIES])
    with (
        pytest.raises(RuntimeError, match="its process ended with status 3: why"),
        Workers(1) as crew,
    ):
        crew.submit(lambda: crew.run(given) and None)


def test_a_process_that_somebody_killed_is_no_fault_of_ours(
    given: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_WORKER", [sys.executable, "-c", KILLER])
    with pytest.raises(HostError, match=r"was killed: .* status -9"), Workers(1) as crew:
        crew.submit(lambda: crew.run(given) and None)


def test_each_class_of_errors_is_known_by_its_status() -> None:
    assert of_status(InputError.exit_status) is InputError
    assert of_status(ChangedError.exit_status) is ChangedError
    assert of_status(99) is QualifyError
