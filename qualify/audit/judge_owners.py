"""Findings of paths, programs and modules that two wheels of a set install."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import msgspec

from qualify.audit import fields
from qualify.audit.finding import Finding
from qualify.audit.layout import SITE, place_of
from qualify.audit.prefixes import Paths
from qualify.audit.wheel import SCRIPTS, Wheel, file_name

MODULE = re.compile(r"(?:\.(?:cpython|abi3|pypy|graalpy)[^/]*)?\.(?:py|pyc|so|pyd)$")


class Owned(msgspec.Struct, frozen=True):
    """Something that a wheel puts at a place; `digest` is of its bytes, "" where it has none."""

    wheel: Wheel
    place: str
    member: str
    line: int | None
    digest: str

    @property
    def told(self) -> str:
        return self.place.removeprefix(f"{SITE}/")

    def at(self, id: str, got: str) -> Finding:
        return Finding(id=id, wheel=self.wheel.name, member=self.member, line=self.line, got=got)


def judge(wheels: list[Wheel]) -> Iterator[Finding]:
    exact: dict[str, Owned] = {}
    folded: dict[str, Owned] = {}
    modules: dict[str, Owned] = {}
    everything = [owned for wheel in wheels for owned in _owned(wheel)]
    paths = [Paths(each.place for each in everything if each.wheel is wheel) for wheel in wheels]
    for owned in everything:
        first = exact.setdefault(owned.place, owned)
        if first.wheel is not owned.wheel:
            same = first.digest == owned.digest and first.digest
            bytes_ = "the same bytes" if same else "other bytes"
            yield owned.at("two-owners", f"{owned.told}, {bytes_}, is of {first.wheel.name} too")
            continue
        form = unicodedata.normalize("NFC", owned.place).casefold()
        near = folded.setdefault(form, owned)
        if near.wheel is not owned.wheel:
            yield owned.at("two-owners-case", f"{owned.told}; {near.wheel.name} has {near.told}")
        for wheel, inside in zip(wheels, paths, strict=True):
            if wheel is not owned.wheel and inside.first_in(owned.place):
                yield owned.at("two-owners", f"{owned.told} is a folder in {wheel.name}")
                break
        if module := _module(owned.place):
            other = modules.setdefault(module, owned)
            if other.wheel is not owned.wheel and other.place != owned.place:
                name = module.replace("/", ".")
                got = f"{name}, which {other.member} of {other.wheel.name} is too"
                yield owned.at("module-two-owners", got)


def shadowed(wheels: list[Wheel]) -> Iterator[Finding]:
    """Modules beside a folder of their name. Python takes a package before a module, and a module
    before a folder of modules (importlib.machinery.FileFinder)."""
    order = {wheel.name: number for number, wheel in enumerate(wheels)}
    files: dict[str, Owned] = {}
    packages: dict[str, Owned] = {}
    modules: dict[str, Owned] = {}
    for owned in (each for wheel in wheels for each in _owned(wheel)):
        if not (name := _module(owned.place)):
            continue
        modules.setdefault(name, owned)
        if owned.told.rpartition("/")[2].startswith("__init__."):
            packages.setdefault(name, owned)
        else:
            files.setdefault(name, owned)
    names = Paths(modules)
    for name, owned in files.items():
        if package := packages.get(name):
            if package.wheel is owned.wheel:  # of two wheels they are two owners of the module
                yield owned.at("module-shadowed", f"{owned.told}; {package.told} is imported")
        elif inner := names.first_in(name):
            hidden = modules[inner]
            last = max(owned, hidden, key=lambda each: order[each.wheel.name])
            yield last.at("module-shadowed", f"{hidden.told}; {owned.told} is imported")


def _owned(wheel: Wheel) -> Iterator[Owned]:
    name = file_name(wheel)
    distribution = name[0] if name else ""
    contents = {m.name: wheel.contents.get(m.entry) for m in wheel.archive.members}
    for member in wheel.files:
        content = contents[member]
        digest = content.digest if content else ""
        yield Owned(wheel, place_of(member, distribution), member, None, digest)
    points = fields.read_entry_points(wheel.text("entry_points.txt") or "").points
    member = wheel.dist_info("entry_points.txt")
    for program, line in {p.name: p.line for p in points if p.group in SCRIPTS}.items():
        yield Owned(wheel, f"bin/{program}", member, line, "")


def _module(place: str) -> str:
    """The name that it is imported by, with slashes; "" for what is no module."""
    path = place.removeprefix(f"{SITE}/")
    if path == place or not MODULE.search(path):
        return ""
    stem = MODULE.sub("", path).removesuffix("/__init__")
    return stem if all(part.isidentifier() for part in stem.split("/")) else ""
