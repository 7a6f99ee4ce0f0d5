"""Seeds of the install scenarios of gate 7: what installers do is done wrong, or only half.

Each stands before the one function that starts programs there, and breaks what a scenario looks at
just after the command that it is about.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seeds.gate7 import whole_site
from seeds.seed import Seed, both, in_child, wrap

START = "gate7_release.environments.start"
UPGRADE = "gate7_release.test_upgrade"
SKEW = "gate7_release.test_skew"
INSTALL = "gate7_release.test_install"


def root_of(words: tuple[object, ...]) -> Path:
    """The environment that a command is about."""
    pythons = (Path(str(word)) for word in words if str(word).endswith("/bin/python"))
    return next(python.parents[1] for python in pythons if str(python) != sys.executable)


def sites(words: tuple[object, ...]) -> Iterator[Path]:
    return root_of(words).glob("lib/python3.*/site-packages")


def after(word: str, action: Callable[[Path], None], where: str = START) -> Seed:
    """When a command with `word` in it is over, `action` on the site of its environment."""

    def start(original: Any, *words: object, **keywords: Any) -> Any:
        done = original(*words, **keywords)
        if word in words:
            for site in sites(words):
                action(site)
        return done

    return wrap(where, start)


def without(*dropped: str, where: str = START) -> Seed:
    """Commands lose these words."""

    def start(original: Any, *words: object, **keywords: Any) -> Any:
        return original(*(word for word in words if word not in dropped), **keywords)

    return wrap(where, start)


def old_file(site: Path) -> None:
    """A module of the release before stays."""
    (site / "torch_emu").mkdir(exist_ok=True)
    (site / "torch_emu" / "of_0_0_9.py").touch()


def no_emud(site: Path) -> None:
    """The program that is the device is lost, wherever below the test's folder it is."""
    for program in site.parents[3].rglob("emu_driver_shim/bin/emud"):
        program.unlink()


def parts_apart(original: Any, *words: object, **keywords: Any) -> Any:
    """The runtime is left out of the install that goes over another."""
    kept = [w for w in words if not ("--ignore-installed" in words and "emu_runtime" in str(w))]
    return original(*kept, **keywords)


def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each environment is the first one."""
    from gate7_release import environments

    made: list[Any] = []

    def make(root: Path, **options: Any) -> Any:
        made.append(made[0] if made else environments.make(root, **options))
        return made[0]

    monkeypatch.setattr(f"{INSTALL}.make", make)


def any_release(original: Any, *words: object, **keywords: Any) -> Any:
    """`--upgrade` takes what there is, older or not."""
    older = ["torch-emu<0.1" if "--upgrade" in words and w == "torch-emu" else w for w in words]
    return original(*older, **keywords)


def with_metadata(change: Callable[[str], str]) -> Seed:
    """Commands get other wheels of the release here: with each line of their metadata changed."""

    def other(word: object) -> object:
        option, _, path = str(word).rpartition("=")
        wheels = sorted(Path(path).glob("*.whl")) if path.endswith("/here") else []
        if Path(path).suffix == ".whl" and Path(path).parent.name == "here":
            return remade(Path(path), Path(tempfile.mkdtemp(prefix="seed-")), change)
        if not wheels:
            return word
        folder = Path(tempfile.mkdtemp(prefix="seed-"))
        for wheel in wheels:
            remade(wheel, folder, change)
        return f"{option}={folder}"

    return wrap(START, lambda original, *words, **k: original(*map(other, words), **k))


def unbound(line: str) -> str:
    """Any release of our other parts will do."""
    return line.partition("~=")[0] + "\n" if line.startswith("Requires-Dist: emu-") else line


def conflicting(line: str) -> str:
    """No NumPy that there is will do."""
    return f"{line}Requires-Dist: numpy>=3\n" if line.startswith("Version:") else line


def remade(wheel: Path, folder: Path, change: Callable[[str], str]) -> Path:
    """A copy of a wheel with each line of its metadata changed; its RECORD agrees."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(folder / wheel.name, "w") as new:
        texts = {entry.filename: old.read(entry) for entry in old.infolist()}
        meta = next(name for name in texts if name.endswith(".dist-info/METADATA"))
        record = meta.replace("METADATA", "RECORD")
        lines = texts[meta].decode().splitlines(keepends=True)
        texts[meta] = "".join(map(change, lines)).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(texts[meta]).digest()).rstrip(b"=")
        row = f"{meta},sha256={digest.decode()},{len(texts[meta])}"
        rows = texts[record].decode().splitlines()
        texts[record] = "\n".join(row if r.startswith(meta) else r for r in rows).encode() + b"\n"
        for entry in old.infolist():
            new.writestr(entry, texts[entry.filename])
    return folder / wheel.name


def this_torch_only(line: str) -> str:
    return line.replace("torch~=", "torch==")


def untyped(original: Any, *words: object, **keywords: Any) -> Any:
    """The plugin raises what its library says of another runtime as it comes."""
    done = original(*words, **keywords)
    if "--target" in words:
        for library in Path(str(words[words.index("--target") + 1])).glob("torch_emu/library.py"):
            text = library.read_text()
            assert "raise PluginError(str(error)) from error" in text
            library.write_text(text.replace("raise PluginError(str(error)) from error", "raise"))
    return done


def newer_device(original: Any, words: Any, *rest: Any, **keywords: Any) -> Any:
    """emud says that it serves interface 1.3, whichever it was built for."""
    more = ["--interface", "1003"] if "--node" in words else []
    return original([*words, *more], *rest, **keywords)


def not_removed(original: Any, environment: Any) -> list[Path]:
    """What is documented leaves the folders of metadata."""
    return [path for path in original(environment) if path.suffix != ".dist-info"]


NO_IMPORT = in_child("import sys; sys.modules['torch_emu'] = None")

SEEDS: dict[str, Seed] = {
    "gate7.install.fresh": both(after("install", old_file), after("installer", old_file)),
    "gate7.install.nothing_on_failure": after("install", old_file),
    "gate7.install.plugin_alone": NO_IMPORT,
    "gate7.install.companions": with_metadata(conflicting),
    "gate7.install.declared_only": in_child("import numpy"),
    "gate7.install.torch_patch": with_metadata(this_torch_only),
    "gate7.install.target": after("--target", no_emud),
    "gate7.install.user_site": wrap(START, parts_apart),
    "gate7.install.editable_shadows": NO_IMPORT,
    "gate7.install.reinstall": without("--force-reinstall", "--reinstall"),
    "gate7.install.two_environments": one_place,
    "gate7.skew.parts": wrap(f"{SKEW}.start", untyped),
    "gate7.skew.device": wrap("gate7_release.hosts.subprocess.Popen", newer_device),
    "gate7.skew.torch": wrap("gate7_release.test_torch.run_in", whole_site),
    "gate7.uninstall.each_order": after("uninstall", old_file),
    "gate7.upgrade.forward": after("--upgrade", old_file),
    "gate7.upgrade.rollback": after("install", old_file),
    "gate7.upgrade.mixture_refused": with_metadata(unbound),
    "gate7.upgrade.never_down": wrap(START, any_release),
    "gate7.upgrade.killed": wrap(f"{UPGRADE}.ours", not_removed),
    "gate7.upgrade.interrupted": without("--force-reinstall", where=f"{UPGRADE}.start"),
}
