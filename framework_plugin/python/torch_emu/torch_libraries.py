"""Whether the libraries of torch in this process are those of the torch that was imported.

The linker takes LD_LIBRARY_PATH and LD_PRELOAD before the folder that torch names. Torch tells the
version of its Python files then, and the library of the plugin meets another one's C++ interface.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch_emu.stamp import PluginError

NEEDED = ("libc10.so", "libtorch.so", "libtorch_cpu.so")
BRING = ("LD_LIBRARY_PATH", "LD_PRELOAD")


def require_own(folder: Path) -> None:
    """Raise PluginError where a library that the plugin links is not that of torch's `folder`."""
    for path in _mapped():
        own = folder / "lib" / path.name
        if path.is_file() and own.is_file() and not path.samefile(own):
            said = ", ".join(f"{name} is {os.environ.get(name)!r}" for name in BRING)
            raise PluginError(
                f"{path} was loaded in place of torch's own {own}: another torch may have another "
                f"C++ interface. Take it out of the linker's way: {said}"
            )


def _mapped() -> list[Path]:
    lines = os.fsdecode(Path("/proc/self/maps").read_bytes()).splitlines()
    paths = {Path(line.split(None, 5)[5]) for line in lines if line.count("/")}
    return sorted(path for path in paths if path.name in NEEDED)
