"""libemurt in this process: found in this package's folder, versions checked first, loaded once."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

from emu_runtime import interface, versions
from emu_runtime.errors import (
    BY_STATUS,
    EmuError,
    InvalidArgumentError,
    NoDriverError,
    Scope,
    VersionError,
)
from emu_runtime.whole import defect

_lock = threading.Lock()
_api: interface.CApi | None = None


def library_path() -> Path:
    """Where libemurt.so of this package is (whether or not it is there)."""
    return versions.PACKAGE / "lib" / "libemurt.so"


def driver_path() -> Path:
    """Where libemudrv.so of the installed driver package is."""
    return versions.driver_package() / "lib" / "libemudrv.so"


def load() -> str:
    """Load libemurt and libemudrv, once a process; give libemurt's absolute path. Opens no device.

    Raises VersionError (before a library is loaded where the packages' files tell), NoDriverError
    when a package or library is missing or does not load.
    """
    table()
    return str(library_path())


def table() -> interface.CApi:
    """The interface table; `load` in other words."""
    global _api
    with _lock:
        if _api is None:
            _api = _load()
        return _api


def _load() -> interface.CApi:
    package = versions.driver_package()
    versions.require_driver(versions.built().driver, versions.driver_window(package))
    own = versions.built().runtime
    if own != (interface.MAJOR, interface.MINOR):
        raise VersionError(
            f"libemurt has runtime interface {own}, the Python files beside it expect "
            f"{interface.MAJOR}.{interface.MINOR}",
            mend=versions.reinstall(),
        )
    for path in (library_path(), driver_path()):
        if path.exists() and (found := defect(path)):
            raise NoDriverError(found, mend=versions.reinstall())
    try:
        library = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_LOCAL)
        get_api = library.emurt_get_api
    except (OSError, AttributeError) as error:
        raise NoDriverError(
            f"the runtime library does not load: {error}", mend=versions.reinstall()
        ) from error
    get_api.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.POINTER(interface.CError)]
    get_api.restype = ctypes.POINTER(interface.CApi)
    error_out = interface.CError(size=ctypes.sizeof(interface.CError))
    pointer = get_api(interface.NUMBER, str(driver_path()).encode(), ctypes.byref(error_out))
    if not pointer:
        raise exception(error_out)
    api: interface.CApi = pointer.contents
    if error_out.status != 0:
        raise exception(error_out)
    return api


def exception(error: interface.CError) -> EmuError:
    """The exception that a C error stands for."""
    kind = BY_STATUS.get(error.status, EmuError)
    return kind(
        error.cause.decode(errors="replace"),
        mend=error.mend.decode(errors="replace"),
        status=error.status,
        scope=Scope(error.scope),
        device=error.device,
        stream=None if error.stream == 2**64 - 1 else error.stream,
        command=error.command,
        address=error.address,
        program=error.program.decode(errors="replace"),
    )


def last_error(api: interface.CApi) -> EmuError:
    error = interface.CError(size=ctypes.sizeof(interface.CError))
    api.last_error(ctypes.byref(error))
    return exception(error)


def call(entry: str, *arguments: object) -> None:
    """Call an entry of the table and raise what it reports. A number has to fit its C type."""
    api = table()
    for position, least, most in interface.LIMITS[entry]:
        value = arguments[position]
        if isinstance(value, int) and not least <= value <= most:
            raise InvalidArgumentError(
                f"{entry}: expected a number from {least} to {most} as argument {position + 1}, "
                f"got {value}"
            )
    if getattr(api, entry)(*arguments) != 0:
        raise last_error(api)


def shutdown() -> None:
    """Drain and close everything; each later call raises ShutDownError."""
    if _api is not None:
        call("shutdown")
