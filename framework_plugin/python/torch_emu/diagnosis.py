"""Why the device can or cannot be used, as data."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch_emu import loading, stamp


@dataclass(frozen=True)
class Diagnosis:
    """`status`: OK, the runtime's status name, or the class of the error that stopped the load."""

    available: bool
    status: str
    cause: str
    mend: str
    torch_version: str
    built_for: tuple[str, ...]
    library: str | None
    device_count: int

    def sentence(self) -> str:
        return f"{self.cause} {self.mend}".strip()


def diagnose() -> Diagnosis:
    """Never raises, opens no device."""
    library = loading.loaded()
    status, cause, mend, count = "OK", "", "", 0
    if library is None:
        error = loading.reason()
        status, cause = type(error).__name__, str(error)
        mend = str(getattr(error, "mend", ""))
        cause = str(getattr(error, "cause", cause))
    else:
        count = library.number("device_count")
        if count == 0:
            status, cause, mend = _why_no_device()
    return Diagnosis(
        available=count > 0,
        status=status,
        cause=cause,
        mend=mend,
        torch_version=str(torch.__version__),
        built_for=tuple(stamp.available()),
        library=None if library is None else str(library.path),
        device_count=count,
    )


def _why_no_device() -> tuple[str, str, str]:
    from emu_runtime import why_no_device

    error = why_no_device()
    if error is None:
        return "NO_DEVICE", "the runtime finds no device.", ""
    return type(error).__name__.removesuffix("Error").upper(), _full_stop(error.cause), error.mend


def _full_stop(text: str) -> str:
    return text if text.endswith(".") else text + "."
