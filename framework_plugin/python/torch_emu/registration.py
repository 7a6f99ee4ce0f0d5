"""Making `emu` known to PyTorch, whether or not the device can be used.

The name and the module `torch.emu` are registered always. Where the library cannot be loaded, every
operator on the device and every first use raises the reason instead.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import Any

import torch
from torch.utils import backend_registration

from torch_emu import library as native
from torch_emu.library import Library

NAME = "emu"

_registered = False
_library: Library | None = None
_reason: BaseException | None = None
_refusals: torch.library.Library | None = None


def register() -> None:
    """Register once; never raises for a reason that lies in the installation or the machine."""
    global _registered, _library, _reason
    if _registered:
        return
    _registered = True
    backend_registration.rename_privateuse1_backend(NAME)
    try:
        _library = native.load(str(torch.__version__))
    except Exception as error:
        _reason = error
        _refuse_operators()
    from torch_emu import device_module

    torch._register_device_module(NAME, device_module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    if _library is not None:
        # Before the interpreter closes, and before the runtime's own exit handler.
        atexit.register(_prepare_exit, os.getpid())
        from torch_emu import module_conversion, printing

        module_conversion.install()
        printing.install()


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


def _prepare_exit(owner: int) -> None:
    if _library is None or os.getpid() != owner:
        return
    _library.get("prepare_exit")
    if threading.active_count() > 1:
        time.sleep(
            0.01
        )  # threads on their way back to Python arrive there and go to their next launch


def _refuse_operators() -> None:
    global _refusals

    def refuse(*_arguments: Any, **_named: Any) -> Any:
        raise refusal()

    _refusals = torch.library.Library("_", "IMPL", "PrivateUse1")  # type: ignore[no-untyped-call]
    # Where the library is loaded and could not start, its own fallback is there already; the first
    # use is refused by `_lazy_init` all the same.
    with contextlib.suppress(RuntimeError):
        _refusals.fallback(refuse)  # type: ignore[no-untyped-call]
