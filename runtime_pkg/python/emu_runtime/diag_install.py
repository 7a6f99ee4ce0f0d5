"""Steps of emu-diag on what is installed: packages, files, versions, libraries, device node.

They read files and start processes of their own, so that they tell the cause also when a library
is broken so badly that loading it ends the process.
"""

from __future__ import annotations

import base64
import grp
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from emu_runtime import versions, whole
from emu_runtime.diagnosis import Figures, Finding, Step
from emu_runtime.errors import VersionError

PACKAGES = ("emu-driver-shim", "emu-runtime")
USERS = ("torch-emu", "torch")
"""What may be installed beside them, to use them."""


def packages() -> Figures:
    if left := versions.leftovers():
        folders = " ".join(str(path) for path in left)
        raise Finding(
            f"an installer that was killed left {folders}, without METADATA: it hides what was "
            "installed since",
            f"Run: {shlex.join(['rm', '-r', *map(str, left)])}",
        )
    found = versions.releases()
    for name in PACKAGES:
        if name not in found:
            raise Finding(f"the package {name} is not installed", f"pip install {name}")
    return {**found}


def files() -> Figures:
    """Each file that RECORD lists with a hash is there and has it."""
    checked = 0
    for name in PACKAGES:
        distribution = importlib.metadata.distribution(name)
        root = Path(str(distribution.locate_file("")))
        listed = distribution.files
        if not listed:
            raise Finding(f"{name} has no RECORD of its files", versions.reinstall())
        for entry in listed:
            if entry.hash is None:
                continue
            path = Path(str(entry.locate()))
            if entry.parts[:2] == ("..", "..") and not path.exists():  # pip install --target
                path = root / Path(*entry.parts[-2:])
            try:
                digest = hashlib.new(entry.hash.mode, path.read_bytes()).digest()
            except OSError as error:
                raise Finding(
                    f"{path} of {name} cannot be read: {error.strerror}", versions.reinstall()
                ) from error
            got = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if got != entry.hash.value:
                raise Finding(
                    f"{path} of {name} was changed after its install: expected {entry.hash.mode} "
                    f"{entry.hash.value}, got {got}",
                    versions.reinstall(),
                )
            checked += 1
    return {"files": checked}


def strangers() -> Figures:
    """What is used is what is installed: no package that was found first, no library of our names
    that LD_PRELOAD or somebody else brought into this process."""
    for name in (*PACKAGES, *USERS):
        module = name.replace("-", "_")
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        installed = Path(str(distribution.locate_file(module))).resolve()
        spec = importlib.util.find_spec(module)
        used = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if used != installed and installed.is_dir():
            raise Finding(
                f"{module} is taken from {used}, and {name} is installed in {installed}",
                f"Take the folder out of PYTHONPATH: it is {os.environ.get('PYTHONPATH')!r}",
            )
    own = {versions.PACKAGE / "lib", versions.driver_package() / "lib"}
    for path in sorted(_mapped()):
        if path.name.startswith(("libemudrv.so", "libemurt.so")) and path.parent not in own:
            raise Finding(
                f"{path} was loaded into this process, and is not the installed library",
                f"Take it out of LD_PRELOAD: it is {os.environ.get('LD_PRELOAD')!r}",
            )
    return {}


def _mapped() -> set[Path]:
    """The files that are mapped into this process."""
    lines = os.fsdecode(Path("/proc/self/maps").read_bytes()).splitlines()
    return {Path(line.split(None, 5)[5]) for line in lines if line.count("/")}


def interfaces() -> Figures:
    """Driver and runtime meet, and runtime and plugin; of which releases, where of several."""
    found = versions.releases()
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    mixed = len(set(found.values())) > 1
    try:
        figures = _meet()
    except VersionError as error:
        if not mixed:
            raise
        cause = f"parts of different releases are installed ({listed}): {error.cause}"
        raise Finding(cause, versions.reinstall()) from error
    if mixed:
        figures["mixed"] = f"{listed}: their interfaces meet"
    return figures


def _meet() -> Figures:
    built = versions.built()
    window = versions.driver_window(versions.driver_package())
    versions.require_driver(built.driver, window)
    versions.require_runtime(versions.plugin_needs())
    figures: Figures = {
        "runtime": str(built.runtime),
        "driver needed": str(built.driver),
        "driver": f"{window.minimum} to {window.current}",
    }
    if beyond := window.beyond(built.driver):
        figures["not used"] = "; ".join(beyond)
    return figures


def library_loads() -> Figures:
    """In a process of its own, started in the packages' folder so that nothing shadows them."""
    script = (
        "import ctypes, sys; from emu_runtime import library, whole\n"
        "for path in (library.driver_path(), library.library_path()):\n"
        "    print(path, flush=True)\n"
        "    if path.exists() and (found := whole.defect(path)): sys.exit(found)\n"
        "    ctypes.CDLL(str(path))\n"
        "library.load()\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=versions.PACKAGE.parent,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Finding("loading the libraries did not end within 30 s") from None
    loaded = done.stdout.splitlines() or ["the libraries"]
    if done.returncode < 0:
        raise Finding(
            f"loading {loaded[-1]} ended the process with signal {-done.returncode}",
            versions.reinstall(),
        )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise Finding(last[0].partition("Error: ")[2] or last[0], versions.reinstall())
    return {"driver": loaded[0], "runtime": loaded[1]}


def programs() -> Figures:
    """emud, which a private device is started from, is whole and runs on this machine."""
    emud = versions.driver_package() / "bin" / "emud"
    try:
        found = whole.defect(emud)
        if not os.access(emud, os.X_OK):
            found = f"{emud} may not be run: {stat.filemode(emud.stat().st_mode)}"
        said = "" if found else _run(emud, "--version")
    except OSError as error:
        raise Finding(f"{emud} cannot be run: {error.strerror}", versions.reinstall()) from error
    if found:
        raise Finding(found, versions.reinstall())
    return {"emud": said}


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise Finding(f"{command[0]} does not run: {last[0]}", versions.reinstall())
    return done.stdout.strip()


def temporary_folder() -> Figures:
    """Programs that PyTorch compiles for the device are kept in files."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
    except OSError as error:
        raise Finding(
            f"no file can be made in {folder}: {error.strerror}",
            "Set TMPDIR to a folder that this user may write to, or make room in it",
        ) from error
    return {"folder": folder}


def node() -> Figures:
    """Nodes in $EMU_DEVICE_DIR or /dev/emu may be opened; without one the device is private."""
    folder = Path(os.environ.get("EMU_DEVICE_DIR") or "/dev/emu")
    try:
        nodes = sorted(folder.glob("emu[0-9]*"))
    except OSError:
        nodes = []
    for path in nodes:
        if path.exists() and not path.is_socket():
            what = "a folder" if path.is_dir() else "a file that is no socket"
            raise Finding(
                f"{path} is {what}, so no emud made it",
                f"Remove it and start emud --node {path}; a container that is given a node before "
                "emud runs gets an empty folder in its place",
            )
        if not os.access(path, os.R_OK | os.W_OK):
            raise Finding(_refusal(path), f"Join the group: usermod -aG {_group(path)} USER")
    if not nodes:
        return {"nodes": 0, "folder": str(folder), "device": "private"}
    return {"nodes": len(nodes), "folder": str(folder)}


def _refusal(path: Path) -> str:
    found = path.stat()
    mode = stat.filemode(found.st_mode)
    return (
        f"{path} ({mode}, owner {_user(found.st_uid)}, group {_group(path)}) may not be opened by "
        f"{_user(os.getuid())} with groups {sorted({os.getgid(), *os.getgroups()})}"
    )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(path: Path) -> str:
    number = path.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


STEPS = (
    Step("packages found", packages),
    Step("files intact", files, ("packages found",)),
    Step("nothing in their place", strangers, ("packages found",)),
    Step("interface versions", interfaces, ("packages found",)),
    Step("libraries load", library_loads, ("interface versions",)),
    Step("device program", programs, ("packages found",)),
    Step("temporary folder", temporary_folder),
    Step("device node", node),
)
