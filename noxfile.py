"""The sessions: each installs what it needs and calls one program. No logic lives here.

A missing interpreter fails the session. Virtual environments are kept; an install is
repeated only when what it depends on has changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import signal
from pathlib import Path
from types import FrameType

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
STOP_SECONDS = 60  # an interrupted run removes its rooms before it ends

nox.needs_version = ">=2024.4.15"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"
nox.options.sessions = ["qualify-3.11"]


def select_pyenv() -> None:
    """pyenv's shims answer only for versions that are selected: select all that are installed."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    mine = platform.python_version()
    found = {path.name for version in PYTHONS for path in root.glob(f"versions/{version}.*")}
    if found and not os.environ.get("PYENV_VERSION"):
        os.environ["PYENV_VERSION"] = ":".join([mine] * (mine in found) + sorted(found))


select_pyenv()


def install(session: nox.Session, *requirements: str) -> None:
    """Editable install, unless this environment has it from the same pyproject.toml."""
    wanted = " ".join([*requirements, Path("pyproject.toml").read_text(encoding="utf-8")])
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    stamp = Path(session.create_tmp()).parent / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return
    session.install(*requirements)
    stamp.write_text(digest)


def call(session: nox.Session, *words: str) -> None:
    """Run a program, and let it clean up when the run is interrupted.

    Nox hands on Ctrl-C, but a signal that ends nox itself would leave the program running. And it
    believes a status of 0, which a program may end with that was interrupted, and which Python
    makes up for a child that ends in the same moment.
    """
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        session.run(
            *("setpriv", "--pdeathsig", "TERM", *words),
            external=True,
            interrupt_timeout=STOP_SECONDS,
            terminate_timeout=STOP_SECONDS,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


def native_tests(session: nox.Session, *options: str, build: str) -> None:
    """Build the C++ test programs of driver shim and runtime and run them; no tests fails."""
    library = Path(build, "driver_shim", "emu_driver_shim", "lib", "libemudrv.so").resolve()
    for source in ("driver_shim", "runtime_pkg"):
        where = ["-S", source, "-B", f"{build}/{source}", "-G", "Ninja", "-DEMU_TESTS=ON"]
        if source == "runtime_pkg":
            where.append(f"-DEMU_DRIVER_LIBRARY={library}")
        call(session, "cmake", *where, *options)
        call(session, "cmake", "--build", f"{build}/{source}", "--parallel", "2")
        tests = ["--test-dir", f"{build}/{source}", "--output-on-failure", "--no-tests=error"]
        call(session, "ctest", *tests)


@nox.session(python=PYTHONS)
def qualify(session: nox.Session) -> None:
    """Source to verdict for one Python; the exit status is the verdict's."""
    install(session, "-e", ".")
    call(session, "qualify", "run", "--python", str(session.python), *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Unit and integration tests."""
    install(session, "-e", ".[tests]")
    native_tests(session, build="build/native")
    which = session.posargs or ["tests/unit", "tests/integration"]
    call(session, "pytest", "-n", "2", *which)


@nox.session
def audit(session: nox.Session) -> None:
    """Inspect our wheels, built for it, or those that are named, by matrix/policy.toml."""
    install(session, "-e", ".")
    call(session, "qualify", "audit", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The README's figures, measured in a clean room."""
    install(session, "-e", ".")
    python = session.run(
        "python", "-c", "import sys; print(*sys.version_info[:2], sep='.')", silent=True
    )
    call(session, "qualify", "bench", "--python", str(python).strip(), *session.posargs)


@nox.session
def rebuild(session: nox.Session) -> None:
    """The wheels, built twice in different surroundings: the same bytes."""
    install(session, "-e", ".")
    call(session, "qualify", "rebuild", *session.posargs)


@nox.session(python=PYTHONS)
def installs(session: nox.Session) -> None:
    """Gate 7 for one Python in every room of the matrix."""
    install(session, "-e", ".")
    call(session, "qualify", "installs", "--python", str(session.python), *session.posargs)


@nox.session(name="installs-3.14")
def installs_of_rooms(session: nox.Session) -> None:
    """Gate 7 for a Python that a room has of its own and this machine may lack."""
    install(session, "-e", ".")
    call(session, "qualify", "installs", "--python", "3.14", *session.posargs)


@nox.session
def cibuildwheel(session: nox.Session) -> None:
    """The published build: the same bytes by cibuildwheel, and what an index asks of a wheel."""
    install(session, "-e", ".[cibuildwheel]")
    call(session, "qualify", "cibuildwheel", *session.posargs)


@nox.session
def survey(session: nox.Session) -> None:
    """The audit on others' wheels: no finding without a reason. Downloads gigabytes."""
    install(session, "-e", ".", "pip>=24")
    call(session, "qualify", "survey", *session.posargs)


@nox.session(name="compare-audits")
def compare_audits(session: nox.Session) -> None:
    """Our audit and other tools on the corpus of broken wheels; writes docs/audit-comparison.md."""
    install(session, "-e", ".", "-r", "tests/integration/broken_wheels/tools.txt")
    session.env["PYTHONPATH"] = "tests/integration"
    call(session, "python", "-m", "broken_wheels.compare", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """The native tests under the address and undefined-behaviour, and the thread sanitizers."""
    install(session, "-e", ".")
    for sanitizer in ("address,undefined", "thread"):
        native_tests(session, "-DEMU_SANITIZE=" + sanitizer, build=f"build/{sanitizer}")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and types."""
    install(session, "-e", ".[tests]")
    call(session, "ruff", "format", "--check", ".")
    call(session, "ruff", "check", ".")
    call(session, "mypy")
    tests = ("tests/gates", "tests/integration/gates", "tests/integration/broken_wheels")
    call(session, "mypy", "noxfile.py", "bench", *tests)
