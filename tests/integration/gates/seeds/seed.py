"""How a seed breaks something: in this process, on the device only, or in child processes.

Seeds run in a room, which goes away with all that they make there.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Seed = Callable[[pytest.MonkeyPatch], None]


def replace(target: str, value: object) -> Seed:
    """`target` (a dotted name) is `value`."""
    return lambda monkeypatch: monkeypatch.setattr(target, value)


def wrap(target: str, change: Callable[..., Any]) -> Seed:
    """`target(*a, **k)` is `change(original, *a, **k)`."""

    def seed(monkeypatch: pytest.MonkeyPatch) -> None:
        original = resolve(target)
        monkeypatch.setattr(target, lambda *a, **k: change(original, *a, **k))

    return seed


def on_device(target: str, change: Callable[..., Any]) -> Seed:
    """As `wrap`, where the first argument is a device tensor; on the CPU all stays right."""

    def guarded(original: Callable[..., Any], first: Any, *rest: Any, **keywords: Any) -> Any:
        if first.device.type == "cpu":
            return original(first, *rest, **keywords)
        return change(original, first, *rest, **keywords)

    return wrap(target, guarded)


def in_child(code: str) -> Seed:
    """`code` runs first in every interpreter that the check starts."""

    def seed(monkeypatch: pytest.MonkeyPatch) -> None:
        import child

        def run(argv: list[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
            start, flag, body, *rest = argv
            return subprocess.run([start, flag, f"{code}\n{body}", *rest], **keywords)

        class Patched:
            TimeoutExpired = subprocess.TimeoutExpired
            DEVNULL = subprocess.DEVNULL

        Patched.run = staticmethod(run)  # type: ignore[attr-defined]
        monkeypatch.setattr(child, "subprocess", Patched)

    return seed


def both(*seeds: Seed) -> Seed:
    def seed(monkeypatch: pytest.MonkeyPatch) -> None:
        for one in seeds:
            one(monkeypatch)

    return seed


def resolve(target: str) -> Any:
    """What a dotted name stands for, importing as far as it has to."""
    import importlib

    names = target.split(".")
    for length in range(len(names), 0, -1):
        try:
            value = importlib.import_module(".".join(names[:length]))
        except ModuleNotFoundError:
            continue
        for name in names[length:]:
            value = getattr(value, name)
        return value
    raise ModuleNotFoundError(target)


def damaged(path: Path, old: bytes, new: bytes) -> Path:
    """A copy of a file with one run of bytes exchanged for another of the same length."""
    data = path.read_bytes()
    assert len(old) == len(new) and old in data, f"{path} has no {old!r} to exchange"
    copy = Path(tempfile.mkdtemp(prefix="seed-")) / path.name
    copy.write_bytes(data.replace(old, new))
    return copy
