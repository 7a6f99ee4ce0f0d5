"""The plugin's library in this process, or the reason why there is none."""

from __future__ import annotations

from torch_emu import library as files
from torch_emu.library import Library
from torch_emu.stamp import Torch

_library: Library | None = None
_reason: BaseException | None = None


def load(torch: Torch) -> Library | None:
    """Load it for this torch, once; what stops it is kept and never raised here."""
    global _library, _reason
    try:
        _library = files.load(torch)
    except Exception as error:
        _reason = error
    return _library


def loaded() -> Library | None:
    """The library, or None where it could not be loaded."""
    return _library


def library() -> Library:
    """The library, or RuntimeError with the reason."""
    if _library is None:
        raise refusal()
    return _library


def reason() -> BaseException | None:
    """Why the library is not loaded."""
    return _reason


def refusal() -> RuntimeError:
    error = RuntimeError(f"the emu device cannot be used: {_reason}")
    error.__cause__ = _reason
    return error
