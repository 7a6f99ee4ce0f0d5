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
from pathlib import Path
from typing import Any

import torch
from torch.utils import backend_registration

from torch_emu import device_module, loading, module_conversion, printing
from torch_emu.stamp import Torch

NAME = "emu"

_registered = False
_refusals: torch.library.Library | None = None


def register() -> None:
    """Register once; never raises for a reason that lies in the installation or the machine."""
    global _registered
    if _registered:
        return
    _registered = True
    backend_registration.rename_privateuse1_backend(NAME)
    library = loading.load(Torch(str(torch.__version__), Path(torch.__file__).parent))
    if library is None:
        _refuse_operators()
    torch._register_device_module(NAME, device_module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    if library is not None:
        # Before the interpreter closes, and before the runtime's own exit handler.
        atexit.register(_prepare_exit, os.getpid())
        module_conversion.install()
        printing.install()


def _prepare_exit(owner: int) -> None:
    library = loading.loaded()
    if library is None or os.getpid() != owner:
        return
    library.get("prepare_exit")
    if threading.active_count() > 1:
        # Threads on their way back to Python arrive there and go to their next launch.
        time.sleep(0.01)


def _refuse_operators() -> None:
    global _refusals

    def refuse(*_arguments: Any, **_named: Any) -> Any:
        raise loading.refusal()

    _refusals = torch.library.Library("_", "IMPL", "PrivateUse1")  # type: ignore[no-untyped-call]
    # Where the library is loaded and could not start, its own fallback is there already; the first
    # use is refused by `devices.require` all the same.
    with contextlib.suppress(RuntimeError):
        _refusals.fallback(refuse)  # type: ignore[no-untyped-call]
