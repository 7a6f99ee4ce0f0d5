"""The installed files are the wheels' own, whole, and promise what they need."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from gate7_release import elf, records
from gate7_release.installed import DISTRIBUTIONS, IMPORTS, binaries, files, site

TAG = re.compile(r"py3-none-(manylinux_(\d+)_(\d+)|manylinux1|manylinux2010|manylinux2014)_(\w+)")
OLD_NAMES = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
STARTED_BY_OTHERS = {"torch.backends": ("torch-emu", "emu", "torch_emu:_autoload")}
SOURCE_PATH = re.compile(rb"(?<![\w.$@-])/(?!usr/)[\w./+-]{2,200}\.(?:cpp|cc|cxx|c|hpp|h|S|o|py)\b")


@pytest.mark.check("gate7.install.record_intact", obligations=["B8", "I1"], kind="inspection")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_record(name: str, detail: Callable[..., None]) -> None:
    """A file differs from the one that was built, or is not listed; no installer complains."""
    distribution = metadata.distribution(name)
    checked = len([row for row in records.rows(distribution) if row.digest])
    detail(files=checked, version=distribution.version)
    assert checked > 3
    assert [*records.wrong(distribution), *records.unlisted(distribution)] == []


@pytest.mark.check("gate7.install.one_owner", obligations=["I4"], kind="inspection")
def test_one_owner() -> None:
    """Two packages install one path; when one is uninstalled the other is broken."""
    owners: dict[Path, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        for file in distribution.files or []:
            place = Path(str(file.locate())).resolve()
            if place.suffix == ".pyc" or name == owners.get(place):
                continue
            assert place not in owners or not {name, owners[place]} & set(DISTRIBUTIONS), (
                f"{place} belongs to {owners[place]} and to {name}"
            )
            owners[place] = name


@pytest.mark.check("gate7.install.tags", obligations=["B8", "I1"], kind="inspection")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_tags(name: str, detail: Callable[..., None]) -> None:
    """The tag promises an older system than the symbols need: it installs, and does not load."""
    text = metadata.distribution(name).read_text("WHEEL") or ""
    tags = re.findall(r"^Tag: (.*)$", text, re.M)
    assert tags and "Root-Is-Purelib: false" in text
    needed = max(elf.read(path).glibc for path in binaries(name))
    detail(tags=tags, glibc_needed="{}.{}".format(*needed))
    for tag in tags:
        match = TAG.fullmatch(tag)
        assert match, f"{tag}: expected py3-none-manylinux_X_Y_machine, a promise about the system"
        assert match[4] == os.uname().machine
        promised = OLD_NAMES.get(match[1]) or (int(match[2]), int(match[3]))
        assert needed <= promised, f"{tag}, but GLIBC {needed} is needed"


@pytest.mark.check("gate7.install.glibc_floor", obligations=["I1"], kind="inspection")
def test_floor(detail: Callable[..., None]) -> None:
    """The wheels ask for a newer system than torch itself does."""
    floor = {name: max(elf.read(path).glibc for path in binaries(name)) for name in DISTRIBUTIONS}
    detail({name: "{}.{}".format(*version) for name, version in floor.items()})
    assert max(floor.values()) <= (2, 28)


@pytest.mark.check("gate7.install.no_build_paths", obligations=["B8", "I3"], kind="inspection")
def test_no_build_paths(detail: Callable[..., None]) -> None:
    """A folder of the build machine is in the bytes: it leaks, or is searched for libraries."""
    found: dict[str, list[str]] = {}
    for name in DISTRIBUTIONS:
        for path in files(name):
            if path.suffix in (".py", ".pyi", ".h") or not path.is_file():
                continue
            hits = sorted({hit.decode() for hit in SOURCE_PATH.findall(path.read_bytes())})
            if hits:
                found[path.name] = hits[:5]
    detail(found=found)
    assert not found


@pytest.mark.check("gate7.install.search_paths", obligations=["I4"], kind="inspection")
def test_search_paths(detail: Callable[..., None]) -> None:
    """A library is searched for outside the installed set, where anyone may have put another."""
    seen = {}
    for name in DISTRIBUTIONS:
        for path in binaries(name):
            facts = elf.read(path)
            seen[path.name] = {"search": facts.search, "needed": facts.needed}
            for entry in facts.search:
                assert entry.startswith("$ORIGIN"), f"{path.name}: {entry}"
                target = Path(os.path.normpath(entry.replace("$ORIGIN", str(path.parent))))
                assert target.is_relative_to(site()), f"{path.name}: {entry} leads to {target}"
    detail(seen)


@pytest.mark.check("gate7.install.no_executable_stack", obligations=["I4"], kind="inspection")
def test_stack() -> None:
    """A library asks for an executable stack, and newer systems refuse to load it."""
    asking = [
        p.name for name in DISTRIBUTIONS for p in binaries(name) if elf.read(p).executable_stack
    ]
    assert asking == []


@pytest.mark.check("gate7.install.no_python_symbol", obligations=["I1"], kind="inspection")
def test_no_python_symbol() -> None:
    """A library needs symbols of one Python, and crashes or fails to load in another."""
    for name in DISTRIBUTIONS:
        for path in binaries(name):
            facts = elf.read(path)
            assert facts.python_symbols == (), path.name
            wrong = [n for n in facts.needed if "python" in n]
            assert wrong == [], f"{path.name} needs {wrong}"


@pytest.mark.check("gate7.install.licence", obligations=["I4", "I11"], kind="inspection")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_licence(name: str) -> None:
    """A wheel is installed without the text of its licence."""
    assert metadata.distribution(name).metadata["License-Expression"] == "Apache-2.0"
    texts = [p for p in files(name) if "licenses" in p.parts and p.is_file()]
    assert any("Apache License" in path.read_text() for path in texts)


@pytest.mark.check("gate7.install.no_strays", obligations=["I1"], kind="inspection")
def test_no_strays() -> None:
    """Tests, build leftovers or somebody else's headers come along with the install."""
    allowed = IMPORTS | {"bin"}
    for name in DISTRIBUTIONS:
        for path in files(name):
            inside = path.resolve().is_relative_to(site())
            top = path.resolve().relative_to(site()).parts[0] if inside else path.parent.name
            assert top in allowed or top.endswith((".dist-info", ".libs")), path
            assert not {"tests", "test", "CMakeFiles", "torch"} & set(path.parts[-3:-1]), path
            assert path.suffix not in (".cpp", ".o", ".a", ".cmake"), path


@pytest.mark.check("gate7.install.entry_points", obligations=["I1"], kind="inspection")
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_entry_points(name: str, detail: Callable[..., None]) -> None:
    """A wheel makes its code run in programs that did not ask for it: a test runner, or torch.

    What starts with every Python is a file beside the packages, which `no_strays` sees.
    """
    found = sorted((e.group, e.name, e.value) for e in metadata.distribution(name).entry_points)
    detail(entry_points=[f"{group}: {name} = {value}" for group, name, value in found])
    for group, entry, value in found:
        assert group in STARTED_BY_OTHERS or group == "console_scripts", f"{group}: {entry}"
        if group in STARTED_BY_OTHERS:
            assert (name, entry, value) == STARTED_BY_OTHERS[group], f"{group}: {entry} = {value}"
        assert value.partition(":")[0].partition(".")[0] in IMPORTS, f"{entry} = {value}"
