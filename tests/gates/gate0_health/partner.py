"""Processes beside the check's own, each in a role of roles.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

BODY = "from gate0_health import roles\nroles.main()"
PRELUDE = ""  # what a partner does first


class Partner:
    """A role that has started; `role` and its arguments."""

    def __init__(self, env: Mapping[str, str | None], *words: str) -> None:
        variables = {name: value for name, value in {**os.environ, **env}.items() if value}
        paths = [str(Path(__file__).parents[1]), variables.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.words = words
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{PRELUDE}\n{BODY}", *words],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def hear(self) -> dict[str, Any]:
        """What it says next."""
        line = self._stdout.readline()
        assert line, f"{self.words} ended with status {self.process.wait()}"
        told: dict[str, Any] = json.loads(line)
        return told

    def proceed(self) -> None:
        print(file=self._stdin, flush=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._stdin.close()
        self._stdout.close()


@contextmanager
def partners(env: Mapping[str, str | None], *roles: tuple[str, ...]) -> Iterator[list[Partner]]:
    """One for each of `roles`; none is left at the end."""
    with ExitStack() as stack:
        started = []
        for words in roles:
            started.append(Partner(env, *words))
            stack.callback(started[-1].kill)
        yield started
