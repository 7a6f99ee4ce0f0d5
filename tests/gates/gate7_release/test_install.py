"""Installs, by each installer and into each kind of place: the tree is the wheels', it works."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gate7_release.environments import BRING_UP, RESOLVERS, install, make, pip, works
from gate7_release.installed import DISTRIBUTIONS
from gate7_release.releases import Releases
from gate7_release.trees import differences

REFUSES = """
import torch
assert torch.emu.is_available() is False
try:
    torch.ones(2, device="emu")
except RuntimeError as error:
    print(error)
else:
    raise SystemExit("it worked, with a part missing")
"""


@pytest.mark.check("gate7.install.fresh", obligations=["B8", "I1"], kind="focused test")
@pytest.mark.parametrize("by", [*RESOLVERS, "installer"])
def test_fresh(by: str, tmp_path: Path, releases: Releases) -> None:
    """An installer leaves a file out, or one that is in no wheel, and the device does not work."""
    environment = make(tmp_path / "venv")
    done = install(by, environment, releases.here)
    assert done.status == 0, done.told
    assert differences(environment, *releases.here.wheels) == []
    works(environment)


@pytest.mark.check("gate7.install.nothing_on_failure", obligations=["I8"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
def test_without_torch(by: str, tmp_path: Path, releases: Releases) -> None:
    """Where torch cannot be had, half of the stack is installed, and nobody says what lacks."""
    environment = make(tmp_path / "venv", leave_out=["torch-"])
    done = install(by, environment, releases.here)
    assert done.status != 0 and "torch" in done.stdout + done.stderr, done.told
    assert differences(environment) == []


@pytest.mark.check("gate7.install.plugin_alone", obligations=["I8"], kind="focused test")
def test_plugin_alone(tmp_path: Path, releases: Releases) -> None:
    """Without its dependencies it makes `import torch` fail, or hides what is missing."""
    environment = make(tmp_path / "venv")
    done = pip(environment, "install", "--no-deps", releases.here.plugin)
    assert done.status == 0, done.told
    assert differences(environment, releases.here.plugin) == []
    told = environment.run(REFUSES)
    assert told.status == 0 and "emu-runtime" in told.stdout, told.told


ARRAYS = """
import numpy, torch
a = numpy.arange(8, dtype="f4")
assert numpy.array_equal((torch.from_numpy(a).to("emu") + 1).cpu().numpy(), a + 1)
print(numpy.__version__)
"""


@pytest.mark.check("gate7.install.companions", obligations=["I1"], kind="focused test")
def test_companions(tmp_path: Path, releases: Releases, detail: Callable[..., None]) -> None:
    """Beside an older NumPy that torch still takes, our wheels can't be installed or used."""
    assert releases.companions, "none are declared for this Python"
    for wheel in releases.companions:
        name, version, *_ = wheel.name.split("-")
        environment = make(tmp_path / wheel.stem, leave_out=[name])
        links = [f"--find-links={folder}" for folder in (wheel.parent, releases.here.folder)]
        done = pip(environment, "install", *links, f"{name}=={version}", "torch-emu")
        assert done.status == 0, done.told
        used = environment.run(BRING_UP + ARRAYS)
        assert used.status == 0, used.told
        assert used.stdout.split() == [version]
    detail(companions=[wheel.name for wheel in releases.companions])


@pytest.mark.check("gate7.install.target", obligations=["I1"], kind="focused test")
def test_target(tmp_path: Path, releases: Releases) -> None:
    """In a folder of the user's choice (`--target`) libraries do not find each other."""
    environment = make(tmp_path / "venv")
    target = tmp_path / "a folder"
    wheels = releases.here.wheels
    done = pip(environment, "install", "--no-deps", "--target", target, *wheels)
    assert done.status == 0, done.told
    assert differences(environment) == [], "something was installed where it should not be"
    works(environment, env={"PYTHONPATH": str(target), "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"})


@pytest.mark.check("gate7.install.user_site", obligations=["I1"], kind="focused test")
def test_user_site(tmp_path: Path, releases: Releases) -> None:
    """In a user's own site it does not work, or its parts are mixed with those of the system's."""
    environment = make(tmp_path / "venv", options=["--system-site-packages"])
    env = {"PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONNOUSERSITE": None}
    user = {"PYTHONUSERBASE": str(tmp_path / "user")}
    words = ["install", "--user", f"--find-links={releases.before.folder}", "torch-emu"]
    done = pip(environment, *words, env=user)
    assert done.status == 0, done.told
    assert differences(environment) == []
    works(environment, env=env)
    over = ["--ignore-installed", "--no-deps"]
    done = pip(environment, "install", *over, *releases.here.wheels)
    assert done.status == 0, done.told
    loaded = environment.run(BRING_UP + WHERE, env=env)
    assert loaded.status == 0, loaded.told
    assert loaded.stdout.split() == [str(environment.site)], "parts of two installs are mixed"


WHERE = """
import sys
from pathlib import Path
used = {Path(sys.modules[name].__file__) for name in ("torch_emu", "emu_runtime")}
with open("/proc/self/maps") as file:
    mapped = {Path(line.split(None, 5)[5].strip()) for line in file if line.count("/")}
used |= {path for path in mapped if path.name.startswith(("libemu", "libtorch_emu"))}
print(*sorted({str(p) for path in used for p in path.parents if p.name == "site-packages"}))
"""
"""The site folders that our modules and libraries come from."""


@pytest.mark.check("gate7.install.editable_shadows", obligations=["I3"], kind="focused test")
def test_editable(tmp_path: Path, releases: Releases) -> None:
    """Behind an editable install of a checkout that was never built, `import torch` fails."""
    environment = make(tmp_path / "venv")
    done = pip(environment, "install", "--no-deps", *releases.here.wheels[:2])
    assert done.status == 0, done.told
    checkout = tmp_path / "checkout"
    shutil.unpack_archive(releases.here.plugin, checkout, "zip")
    shutil.rmtree(checkout / "torch_emu" / "lib")
    (environment.site / "__editable__.torch_emu.pth").write_text(f"{checkout}\n")
    told = environment.run(REFUSES)
    assert told.status == 0, told.told
    assert str(checkout) in told.stdout and "pip install" in told.stdout, told.told


@pytest.mark.check("gate7.install.reinstall", obligations=["I8"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
def test_reinstall(by: str, tmp_path: Path, releases: Releases) -> None:
    """A damaged install is told to be installed again, and that does not mend it."""
    environment = make(tmp_path / "venv")
    assert install("installer", environment, releases.here).status == 0
    library = environment.site / "emu_runtime" / "lib" / "libemurt.so"
    library.write_bytes(library.read_bytes()[:4096])
    (environment.site / "torch_emu" / "stamp.py").unlink()
    assert len(differences(environment, *releases.here.wheels)) >= 2
    again = "--force-reinstall" if by == "pip" else "--reinstall"
    done = RESOLVERS[by](environment, "install", again, "--no-deps", *releases.here.wheels)
    assert done.status == 0, done.told
    assert differences(environment, *releases.here.wheels) == []
    works(environment)


@pytest.mark.check("gate7.install.two_environments", obligations=["I1"], kind="focused test")
def test_two_environments(tmp_path: Path, releases: Releases) -> None:
    """Two environments with two releases disturb each other when both are in use."""
    first, second = make(tmp_path / "first"), make(tmp_path / "second")
    for environment, release in ((first, releases.before), (second, releases.here)):
        assert install("uv", environment, release).status == 0
    ask = BRING_UP + WHERE + "import torch_emu\nprint(torch_emu.__version__, flush=True)\n"
    with subprocess.Popen(
        [str(first.python), "-c", ask + "sys.stdin.read()\n" + BRING_UP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holding:
        assert holding.stdin and holding.stdout
        said = [holding.stdout.readline().strip() for _ in range(2)]
        other = second.run(ask)
        holding.stdin.close()
        assert holding.wait(timeout=60) == 0
    assert other.status == 0, other.told
    assert said == [str(first.site), releases.before.version]
    assert other.stdout.split() == [str(second.site), releases.here.version]


@pytest.mark.check("gate7.uninstall.each_order", obligations=["I8"], kind="focused test")
@pytest.mark.parametrize("by", RESOLVERS)
@pytest.mark.parametrize(
    "order", ["_".join(order) for order in itertools.permutations(DISTRIBUTIONS)]
)
def test_uninstall(
    by: str, order: str, tmp_path: Path, releases: Releases, detail: Callable[..., None]
) -> None:
    """After one part is taken out, files of it stay, another is broken, or `import torch` fails."""
    environment = make(tmp_path / "venv")
    assert install(by, environment, releases.here).status == 0
    wheels = dict(zip(DISTRIBUTIONS, releases.here.wheels, strict=True))
    confirm = ["--yes"] if by == "pip" else []
    told = []
    for name in order.split("_"):
        done = RESOLVERS[by](environment, "uninstall", *confirm, name)
        assert done.status == 0, done.told
        del wheels[name]
        assert differences(environment, *wheels.values()) == []
        if by == "pip" and "torch-emu" in wheels:
            said = environment.run(REFUSES)
            assert said.status == 0, said.told
            told.append(said.stdout.strip())
    detail(told=told)
