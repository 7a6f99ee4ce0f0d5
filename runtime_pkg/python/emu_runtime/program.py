"""A Python program in this process, run as `python` would, for a tool that watches it.

What ends the program leaves `run` as it is, so that the interpreter goes on as after any program:
it tells the error, waits for threads, runs exit handlers, and has the program's exit status.
"""

from __future__ import annotations

import builtins
import pkgutil
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType


def source(name: str) -> bytes | None:
    """Text of the file; None for a folder or an archive with a `__main__.py`. Raises OSError."""
    path = Path(name).absolute()
    return None if pkgutil.get_importer(str(path)) is not None else path.read_bytes()


def run(arguments: Sequence[str], text: bytes | None, *, module: bool = False) -> None:
    """Run the module, or the file with its `source`; the first of the arguments is its name."""
    sys.argv = list(arguments)
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main  # stays: threads and exit handlers of the program outlive this
    path = Path(arguments[0]).absolute()
    try:
        if module:
            _put_on_path(Path.cwd())
            runpy._run_module_as_main(arguments[0])  # type: ignore[attr-defined]  # as python does
        elif text is None:
            _put_on_path(path, always=True)
            runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        else:
            _put_on_path(path.resolve().parent)
            main.__file__ = str(path)
            main.__loader__ = SourceFileLoader("__main__", str(path))
            exec(compile(text, path, "exec", dont_inherit=True), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        assert error.__traceback__ is not None
        _tell_from(error.__traceback__.tb_next)
        raise


def _put_on_path(place: Path, *, always: bool = False) -> None:
    """Instead of the folder of the tool that runs here, which is there unless the path is safe."""
    safe = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    if not safe:
        del sys.path[0]
    if always or not safe:
        sys.path.insert(0, str(place))


def _tell_from(frames: TracebackType | None) -> None:
    """Leave out the frames above the program's when the interpreter tells of the error."""
    tell = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        tell(kind, error.with_traceback(frames), frames)

    sys.excepthook = hook
