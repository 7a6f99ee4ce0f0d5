"""libtorch_emu in this process: its C interface as typed functions.

`load()` checks the torch stamp and torch's own libraries, loads the runtime, then the library, and
hands it the runtime's path. It is called once, from the registration; the outcome is kept either
way.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint64
from dataclasses import dataclass
from pathlib import Path

from torch_emu.stamp import PluginError, Torch, library_for, reinstall
from torch_emu.torch_libraries import require_own

FALLBACKS = ("error", "warn", "allow")
DEFAULT_FALLBACK = "warn"

_PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "last_error": (c_size_t, [c_char_p, c_size_t]),
    "init": (c_int, [c_char_p, c_char_p, c_char_p]),
    "device_count": (c_int, []),
    "current_device": (c_int, []),
    "set_device": (c_int, [c_int]),
    "set_fallback": (c_int, [c_char_p]),
    "fallback": (c_char_p, []),
    "counts": (c_size_t, [c_char_p, c_size_t]),
    "reset_counts": (None, []),
    "bookkeeping_bytes": (c_uint64, [c_int]),
    "prepare_exit": (c_int, []),
    "set_recording": (None, [c_int]),
    "operator_name": (c_char_p, [c_uint64]),
    "get_state": (c_int, [c_int, POINTER(c_uint64), POINTER(c_uint64)]),
    "set_state": (c_int, [c_int, c_uint64, c_uint64]),
}


@dataclass(frozen=True)
class Library:
    """The loaded library; `call` raises RuntimeError with the library's own message."""

    path: Path
    _functions: dict[str, Callable[..., object]]

    def get(self, name: str, *arguments: object) -> object:
        """The plain result of a function that cannot fail."""
        return self._functions[name](*arguments)

    def number(self, name: str, *arguments: object) -> int:
        result = self.get(name, *arguments)
        assert isinstance(result, int)
        return result

    def text(self, name: str) -> str:
        """Text of a function that fills a buffer."""
        size = self.number(name, None, 0)
        buffer = ctypes.create_string_buffer(size + 4096)
        self.number(name, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    def call(self, name: str, *arguments: object) -> None:
        if self.number(name, *arguments) != 0:
            raise RuntimeError(self.text("last_error"))


def load(torch: Torch) -> Library:
    """Load everything that is needed; PluginError or the runtime's own error says what is wrong."""
    fallback = os.environ.get("TORCH_EMU_FALLBACK", DEFAULT_FALLBACK)
    if fallback not in FALLBACKS:
        raise PluginError(
            f"TORCH_EMU_FALLBACK: expected error, warn or allow, got `{fallback}`; set one of them"
        )
    path = library_for(torch)
    require_own(torch.folder)
    runtime_path, driver_path = _load_runtime()
    _require_whole(path)
    try:
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL | os.RTLD_NOW)
        functions = {name: _prototype(loaded, name) for name in _PROTOTYPES}
    except (OSError, AttributeError) as error:
        raise PluginError(f"{path} does not load: {error}. {reinstall()}") from error
    library = Library(path, functions)
    try:
        library.call("init", runtime_path.encode(), driver_path.encode(), fallback.encode())
    except RuntimeError as error:  # such as a runtime of another release
        raise PluginError(str(error)) from error
    _name_operators(library)
    return library


def _name_operators(library: Library) -> None:
    from emu_runtime.activity import name_operators

    def record(on: bool) -> None:
        library.get("set_recording", int(on))

    def name(correlation: int) -> str:
        found = library.get("operator_name", correlation)
        assert isinstance(found, bytes)
        return f"aten::{found.decode()}" if found else ""

    name_operators(record, name)


def _load_runtime() -> tuple[str, str]:
    try:
        from emu_runtime import library as runtime
    except ImportError as error:
        raise PluginError(
            f"torch-emu needs emu-runtime, which cannot be imported: {error}. "
            f"{reinstall('emu-runtime')}"
        ) from error
    return runtime.load(), str(runtime.driver_path())


def _require_whole(path: Path) -> None:
    from emu_runtime.whole import shortfall  # the runtime was imported a moment ago

    if missing := shortfall(path):
        raise PluginError(f"{path} is cut short: {missing} bytes of it are missing. {reinstall()}")


def _prototype(loaded: ctypes.CDLL, name: str) -> Callable[..., object]:
    function = getattr(loaded, f"torch_emu_{name}")
    result, arguments = _PROTOTYPES[name]
    function.restype = result
    function.argtypes = arguments
    called: Callable[..., object] = function
    return called
