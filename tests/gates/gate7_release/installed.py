"""What is installed here: the three distributions, their files, and copies of the whole site."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from child import Finished, run_python

DISTRIBUTIONS = ("emu-driver-shim", "emu-runtime", "torch-emu")
IMPORTS = {"emu_driver_shim", "emu_runtime", "torch_emu"}


def site() -> Path:
    """The folder that the runtime is installed in, and all else with it."""
    return Path(str(metadata.distribution("emu-runtime").locate_file(""))).resolve()


def files(name: str) -> list[Path]:
    """Every file that the distribution says it owns, but for compiled Python."""
    recorded = metadata.distribution(name).files or []
    return [Path(str(f.locate())) for f in recorded if f.suffix != ".pyc"]


def binaries(name: str) -> list[Path]:
    found = [path for path in files(name) if path.is_file()]
    return [path for path in found if path.read_bytes()[:4] == b"\x7fELF"]


def mirror(target: Path, leave_out: tuple[str, ...] = ()) -> Path:
    """A site folder like the one that is installed, less the named distributions.

    The packages under test are copies, all else is links; what is left out is really not there.
    """
    target.mkdir()
    absent = set()
    for name in leave_out:
        for file in metadata.distribution(name).files or []:
            absent.add(file.parts[0])
    for entry in site().iterdir():
        if entry.name in absent or entry.suffix == ".pth":
            continue
        if entry.name in IMPORTS:
            shutil.copytree(entry, target / entry.name, symlinks=True)
        else:
            (target / entry.name).symlink_to(entry)
    return target


def other_torch(folder: Path, change: Callable[[str], str] = str) -> Path:
    """Make a torch of its own in `folder`, where there may be a link to it: links to the room's
    files, but for two by which it is known. `change` is what its version.py goes through."""
    made = folder / "torch"
    made.unlink(missing_ok=True)
    made.mkdir()
    changes: dict[str, Callable[[str], str]] = {"__init__.py": str, "version.py": change}
    for entry in (site() / "torch").iterdir():
        if entry.name in changes:
            (made / entry.name).write_text(changes[entry.name](entry.read_text()))
        else:
            (made / entry.name).symlink_to(entry)
    return made


def run_in(place: Path, code: str, **keywords: object) -> Finished:
    """Run `code` with `place` as the only site folder."""
    head = "import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    head += f"sys.path.append({str(place)!r})\n"
    return run_python(head + code, **keywords)  # type: ignore[arg-type]
