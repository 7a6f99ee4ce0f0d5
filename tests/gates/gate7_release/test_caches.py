"""Caches and temporary files: where they lie, that they stay few, and that none has to be possible.

No wheel of ours keeps compiled artifacts on disk. A later one that does is seen here, with its
place, its bound and its key.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from child import Finished, run_python
from gate7_release import places
from gate7_release.environments import RESOLVERS, install, make, pip
from gate7_release.installed import DISTRIBUTIONS, IMPORTS, mirror, run_in
from gate7_release.places import Places
from gate7_release.releases import Releases
from gate7_release.trees import differences

MADE_ROOM = "/opt/venv"  # where containers and sandboxes have their environment
PROCESSES = 12
SECONDS = 300  # of several processes that start torch at once on a busy machine
AT_ONCE = 2  # processes with torch, where it is not about that
ONE_TIME = 1_700_000_000  # for every file, as images have it that are made to be reproduced
SMALL_BYTES = 256 << 20  # of a file system in memory that a test may fill

EAGER = """
import torch
def loss(x, w):
    return torch.relu(x @ w - 512).sum()
def gradient(call, device):  # of whole numbers that f32 holds, so that each way gives the same
    w = (torch.arange(64.0).reshape(8, 8) % 7).to(device).requires_grad_()
    call(torch.arange(32.0).reshape(4, 8).to(device), w).backward()
    return w.grad.cpu()
want = gradient(loss, "cpu")
assert want.any() and torch.equal(gradient(loss, "emu"), want), "eager"
"""
CAPTURED = """
call = torch.compile(loss, backend="aot_eager", fullgraph=True)
assert torch.equal(gradient(call, "emu"), want), "captured"
"""
WHOLE = EAGER + CAPTURED
SMALL = """
import emu_runtime
address = emu_runtime.Device(0).alloc(16)
emu_runtime.Device(0).write(address, b"0123456789abcdef")
"""
REMOVED = """
import os
os.mkdir("gone"), os.chdir("gone"), os.rmdir("../gone")
"""
FORKED = f"""
import os, signal, torch, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on of each fork beside a thread
for number in range({PROCESSES}):
    child, killed = os.fork(), number % 3 == 0
    if child == 0:
        exec({EAGER!r})
        os.kill(os.getpid(), signal.SIGKILL) if killed else os._exit(0)
    assert os.waitpid(child, 0)[1] == (signal.SIGKILL if killed else 0)
"""
UNPRIVILEGED = """
import ctypes, os
if os.geteuid() == 0:  # root may write everywhere, until it gives up its capabilities
    version_3, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(version_3, none) == 0
"""


def run(code: str, at: Places, *arguments: str, **env: str | None) -> Finished:
    everything = {**at.env, **env}
    return run_python(code, *arguments, env=everything, cwd=at.work, timeout=SECONDS)


def program(at: Places, name: str, *arguments: str) -> Finished:
    done = subprocess.run(
        [str(Path(sys.executable).parent / name), *arguments],
        env={name: value for name, value in {**os.environ, **at.env}.items() if value is not None},
        cwd=at.work,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def passed(done: Finished) -> None:
    assert done.status == 0 and done.stderr == "", done.told


@pytest.mark.check("gate7.cache.places", obligations=["I5"], kind="focused test")
def test_places(tmp_path: Path, detail: Callable[..., None]) -> None:
    """Something is written to a folder that nobody is told of, or is there when all has ended."""
    at = places.make(tmp_path / "places")
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    trace = tmp_path / "trace.json"
    before = places.outside()
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(run, WHOLE, at)
        tools = [
            pool.submit(program, at, "emu-diag"),
            pool.submit(program, at, "emu-smi"),
            pool.submit(program, at, "emu-trace", "--output", str(trace), str(script)),
            *(pool.submit(program, at, name, "--help") for name in programs()),
        ]
    passed(whole.result())
    for tool in tools:
        assert tool.result().status == 0, tool.result().told
    assert trace.is_file()
    found = at.listing()
    detail(found={path: list(entry) for path, entry in found.items()})
    assert places.wrong(found) == []
    assert found, "places.toml lists what was not made"
    more = places.outside() - before
    if sys.prefix != MADE_ROOM:  # others work on this machine too
        more = {path for path in more if "emu" in path.name or "torch" in path.name}
    assert more == set(), "outside of TMPDIR"


def programs() -> list[str]:
    found = (e for name in DISTRIBUTIONS for e in metadata.distribution(name).entry_points)
    return sorted(entry.name for entry in found if entry.group == "console_scripts")


@pytest.mark.check("gate7.cache.account", obligations=["I5"], kind="focused test")
def test_account(tmp_path: Path, detail: Callable[..., None]) -> None:
    """Something is written to the user's home folder by the system's list of users, past HOME and
    whatever else is set."""
    at = places.make(tmp_path / "places")
    before = places.account()
    passed(run(WHOLE, at))
    for name in programs():
        done = program(at, name, "--help")
        assert done.status == 0, done.told
    found = places.account()
    if sys.prefix != MADE_ROOM:  # the user's own
        found -= before
    detail(found=sorted(map(str, found)))
    assert found == set()


@pytest.mark.check("gate7.cache.bounded", obligations=["I5"], kind="focused test")
def test_bounded(tmp_path: Path, detail: Callable[..., None]) -> None:
    """Each process leaves one file more, and one day the disk is full."""
    at = places.make(tmp_path / "places")
    passed(run(EAGER, at))
    once = at.listing()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(run, code, at) for code in (FORKED, *[SMALL] * PROCESSES)]
    for each in done:
        passed(each.result())
    assert at.listing() == once
    detail(processes=2 * PROCESSES + 1, killed=PROCESSES // 3)


@pytest.mark.check("gate7.cache.concurrent", obligations=["I5"], kind="focused test")
def test_concurrent(tmp_path: Path) -> None:
    """Of processes that start at once, one takes what another is making, and fails."""
    at = places.make(tmp_path / "places")
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(run, code, at) for code in (WHOLE, WHOLE, *[SMALL] * 4)]
    for each in done:
        passed(each.result())
    assert places.wrong(at.listing()) == []


@pytest.mark.check("gate7.cache.unwritable", obligations=["I5"], kind="focused test")
def test_unwritable(tmp_path: Path, detail: Callable[..., None]) -> None:
    """Where a folder is missing, read-only or full the device does not work, or warns each time."""
    before = places.outside()
    shut, site = tmp_path / "shut", mirror(tmp_path / "site")
    shut.mkdir()
    ours = places.below(site, links=False)
    for path in (shut, site, *ours):
        path.chmod(path.stat().st_mode & ~0o222)
    nowhere = {**dict.fromkeys(places.VARIABLES, str(shut)), "PYTHONDONTWRITEBYTECODE": None}

    def case(name: str, code: str, **env: str) -> Finished:
        return run(UNPRIVILEGED + code, places.make(tmp_path / name), **env)

    with full_disk(tmp_path.name) as full, ThreadPoolExecutor(AT_ONCE) as pool:
        done = {
            "all": pool.submit(
                run_in, site, UNPRIVILEGED + WHOLE, env=nowhere, cwd=shut, timeout=SECONDS
            ),
            "missing": pool.submit(case, "missing", EAGER, TMPDIR=str(tmp_path / "nowhere")),
            "read-only": pool.submit(case, "read-only", EAGER, TMPDIR=str(shut)),
            "removed": pool.submit(case, "removed", REMOVED + SMALL),  # torch's own MKL ends there
        }
        if full:
            done["full"] = pool.submit(case, "full", WHOLE, TMPDIR=str(full))
    for name, each in done.items():
        told = each.result()
        assert told.status == 0 and len(told.stderr.splitlines()) <= 1, f"{name}: {told.told}"
        if (tmp_path / name).is_dir():
            assert Places(tmp_path / name).listing() == {}, name
    assert list(shut.iterdir()) == []
    assert places.below(site, links=False) == ours
    # Without its own folder torch takes the machine's. Outside a made room others work there too.
    for path in places.outside() - before if sys.prefix == MADE_ROOM else ():
        assert path.name.startswith("torchinductor_") and list(path.iterdir()) == [], path
        path.rmdir()
    detail(tried=list(done), full=full is not None)


@contextmanager
def full_disk(name: str) -> Iterator[Path | None]:
    """A folder on a file system in memory that has no byte left; None where that one is large."""
    memory = Path("/dev/shm")
    mine = sys.prefix == MADE_ROOM and os.access(memory, os.W_OK)
    if not mine or shutil.disk_usage(memory).free > SMALL_BYTES:
        yield None
        return
    folder = memory / name
    folder.mkdir()
    try:
        with (folder / "filling").open("wb", buffering=0) as file:
            with suppress(OSError):
                while file.write(bytes(1 << 20)):
                    pass
            with suppress(OSError):
                while file.write(b"\0"):
                    pass
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.check("gate7.cache.foreign", obligations=["I5"], kind="focused test")
def test_foreign(tmp_path: Path, detail: Callable[..., None]) -> None:
    """What somebody else put where ours is to lie is written to, through a link or by its name."""
    first = places.make(tmp_path / "first")
    names: set[str] = set()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run, WHOLE, first)
        while not done.done():  # what is gone at the end counts too
            names.update(first.names())
            time.sleep(0.01)
    passed(done.result())
    assert names, "torch makes a folder"
    kinds = {path: entry.kind for path, entry in first.listing().items()}
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "theirs").write_text("theirs")
    behind = {name: places.make(tmp_path / name) for name in ("linked", "taken")}
    tops = sorted({Path(*Path(name).parts[:2]) for name in names})
    for path in tops:
        folder = kinds.get(str(path)) == "folder"
        (behind["linked"].root / path).symlink_to(trap if folder else trap / "theirs")
        (behind["taken"].root / path).write_text("theirs")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        used = {name: pool.submit(run, WHOLE, at) for name, at in behind.items()}
    for name, each in used.items():
        told, at = each.result(), behind[name]
        last = told.stderr.splitlines()[-1:]
        refused = any(str(at.root / path) in line for line in last for path in tops)
        assert told.status == 0 or refused, f"{name}: {told.told}"
        assert set(at.listing()) == {str(path) for path in tops}, name
    assert [path.name for path in places.below(trap)] == ["theirs"]
    assert (trap / "theirs").read_text() == "theirs"
    for path in tops:
        assert (behind["linked"].root / path).is_symlink()
        assert (behind["taken"].root / path).read_text() == "theirs"
    detail(planted=[str(path) for path in tops])


ANSWER = """
import json, subprocess, emu_driver_shim, emu_runtime.versions, torch_emu
emud = [str(emu_driver_shim.emud_path()), "--version"]
said = subprocess.run(emud, capture_output=True, text=True, check=True).stdout
print(json.dumps([emu_driver_shim.__version__, emu_runtime.versions.built().version,
                  torch_emu.__version__, said.split()[1].strip(",")]))
"""
"""Each part's own word for its release."""


@pytest.mark.check("gate7.cache.stale", obligations=["C5", "I5", "I8"], kind="focused test")
def test_stale(tmp_path: Path, releases: Releases) -> None:
    """After an upgrade, or back again, what the other release has kept is used, and is wrong."""
    environment, at = make(tmp_path / "venv"), places.make(tmp_path / "places")
    here, after = releases.here, releases.after
    for release, code in ((here, WHOLE), (after, WHOLE), (here, EAGER)):
        done = install("uv", environment, release)
        assert done.status == 0, done.told
        asked = environment.run(code + ANSWER, env=at.env, cwd=at.work, timeout=SECONDS)
        passed(asked)
        assert json.loads(asked.stdout) == [release.version] * 4
    assert places.wrong(at.listing()) == []


NOT_OWN = """
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
for path in sorted(Path(p) for name in sys.argv[2:] for p in Path(sys.argv[1], name).rglob("*.py")):
    loader = SourceFileLoader(path.stem, str(path))
    own = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    if loader.get_code(path.stem) != own:
        print(path)
"""
"""Modules of which Python would run other code than their source's. It compiles what is not yet
compiled, as imports do."""


@pytest.mark.check("gate7.cache.byte_code", obligations=["I5", "I8"], kind="focused test")
@pytest.mark.parametrize("by", [*RESOLVERS, "installer"])
def test_byte_code(by: str, tmp_path: Path, releases: Releases) -> None:
    """The code of the release before runs, where the times of files tell no difference: in an
    image whose files are all of one time, two releases of a module may differ in nothing else."""
    environment = make(tmp_path / "venv")

    def alike() -> list[Path]:
        sources = [p for name in IMPORTS for p in (environment.site / name).rglob("*.py")]
        for path in sources:
            os.utime(path, (ONE_TIME, ONE_TIME))
        return sources

    for release in (releases.here, releases.after):
        if by == "installer":  # it replaces nothing
            pip(environment, "uninstall", "--yes", *DISTRIBUTIONS)
        done = install(by, environment, release)
        assert done.status == 0, done.told
        sources = alike()
        env = {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": None}
        asked = environment.run(NOT_OWN, str(environment.site), *sorted(IMPORTS), env=env)
        assert asked.status == 0 and asked.stdout == "", asked.told
        compiled = [path for path in sources if Path(cache_from_source(path)).is_file()]
        assert compiled == sources, "no byte code was kept"
        assert differences(environment, *release.wheels) == []
