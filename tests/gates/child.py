"""A fresh Python process, for what one process cannot show: exit statuses, imports, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Finished(NamedTuple):
    """`status` is -N for signal N, and 124 for a process that was still running at the limit."""

    status: int
    stdout: str
    stderr: str

    @property
    def told(self) -> str:
        """All that the process said, for a failure's message."""
        return f"status {self.status}\n{self.stdout}\n{self.stderr}"


def run_python(
    code: str,
    *arguments: str,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    timeout: float = 120,
    python: Path | None = None,
) -> Finished:
    """Run `code` in a new interpreter, this one or `python`.

    A variable of `env` that is None is taken out.
    """
    variables = dict(os.environ)
    for name, value in (env or {}).items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    try:
        done = subprocess.run(
            [str(python or sys.executable), "-c", textwrap.dedent(code), *arguments],
            env=variables,
            cwd=cwd,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        err = late.stderr.decode(errors="replace") if isinstance(late.stderr, bytes) else ""
        return Finished(124, out, err + f"\nstill running after {timeout} s")
    return Finished(done.returncode, done.stdout, done.stderr)
