"""Gates side by side, each in a process of its own.

A process, because a signal to stop has to unwind each of them and remove its room: it reaches
one thread of a process only. What goes in are the gate's inputs and what comes out is its
record, or the error that it ended with.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from types import TracebackType

import msgspec

from qualify import errors, evidence, gate, process
from qualify.errors import HostError, QualifyError, host_errors
from qualify.evidence import Record
from qualify.gate import Inputs
from qualify.stopping import Stopped, stopping

AT_ONCE = min(2, os.cpu_count() or 1)
"""A gate of installs keeps about one core busy: two of them took 267 to 316 s beside each other on
two cores, and one alone 256 to 278."""
AGAIN_SECONDS = 1
BY_OTHERS = {-signal.SIGKILL, *(128 + n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))}
"""What a gate's process ends with that somebody killed, such as a kernel without memory."""
_WORKER = [
    sys.executable,
    "-c",
    # The modules of this process: a folder `qualify` in the working directory is another one.
    f"import sys; sys.path = {sys.path!r}; from qualify.workers import main; main()",
]


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """A QualifyError, on its way from one process to another."""

    what: str
    expected: str
    got: str
    mend: str


class Workers:
    """At most `at_once` pieces of work, in threads; the gates of each in processes.

    Used as a context manager. An exception that leaves it stops the gates that run, which remove
    their rooms first.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._pool = ThreadPoolExecutor(at_once)
        self._going: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def wait_for_one(self) -> None:
        """Until fewer than `at_once` go on. Raises what one raised that ended meanwhile."""
        self._wait_until(self._at_once - 1)

    def submit(self, work: Callable[[], None]) -> None:
        """Start `work` when `wait_for_one` is over."""
        self.wait_for_one()
        self._going.add(self._pool.submit(work))

    def _wait_until(self, most: int) -> None:
        """For no more than `most` to go on."""
        while len(self._going) > most:
            done, self._going = wait(self._going, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()

    def run(self, inputs: Inputs) -> Record:
        """`gate.run(inputs)` in another process; for the work to call."""
        with self._lock:
            if self._stopped:
                raise CancelledError
            child = process.start(_WORKER, ending="TERM")
            self._running.add(child)
        try:
            written, said = child.communicate(pickle.dumps(inputs))
        finally:
            with self._lock:
                self._running.remove(child)
        if child.returncode == 0:
            return evidence.decode(written)
        if self._stopped:
            raise CancelledError
        if child.returncode in BY_OTHERS:
            raise HostError(
                f"gate {inputs.gate.number} in {inputs.room.facts.name}: its process was killed",
                expected="its record",
                got=f"status {child.returncode}",
                mend="Run again; where memory was short, with --at-once 1",
            )
        try:
            told = msgspec.json.decode(written, type=_Told)
        except msgspec.DecodeError:
            raise RuntimeError(
                f"gate {inputs.gate.number} in {inputs.room.facts.name}: its process ended with "
                f"status {child.returncode}: {said.decode(errors='replace')[-2000:]}"
            ) from None
        kind = errors.of_status(child.returncode)
        raise kind(told.what, expected=told.expected, got=told.got, mend=told.mend)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended = False
        try:
            if error is None:
                self._wait_until(0)
                ended = True
        finally:
            if not ended:
                self._stop()
            self._pool.shutdown()

    def _stop(self) -> None:
        """Tell each that runs, and again until it has ended: one that was just being started takes
        over that the signal is ignored here by now, until it has a handler of its own."""
        going = True
        while going:
            with self._lock:
                self._stopped = True
                for child in self._running:
                    child.terminate()
            going = bool(wait(self._going, timeout=AGAIN_SECONDS).not_done)


def main() -> None:
    """One gate: its inputs from standard input, its record or error to standard output."""
    inputs = pickle.loads(sys.stdin.buffer.read())
    try:
        with stopping(), host_errors("cannot go on"):
            written = evidence.encode(gate.run(inputs))
    except QualifyError as error:
        told = _Told(what=error.what, expected=error.expected, got=error.got, mend=error.mend)
        sys.stdout.buffer.write(msgspec.json.encode(told))
        sys.stdout.flush()
        sys.exit(error.exit_status)
    except Stopped as stopped:
        sys.exit(stopped.status)
    sys.stdout.buffer.write(written)
    sys.stdout.flush()
