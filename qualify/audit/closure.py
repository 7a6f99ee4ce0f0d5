"""Facts of wheels that are installed together: which file each needed library is.

What a loader would do is followed for each file that no other needs (ld.so(8); glibc's
`_dl_map_object`): breadth first, what is loaded already before search paths, RPATH of the file and
of what loaded it unless the file has a RUNPATH, and at last the host. Nothing is loaded.
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from qualify.audit import elf, platform_tag
from qualify.audit.elf import Elf
from qualify.audit.layout import place_of
from qualify.audit.platform_tag import Promise
from qualify.audit.policy import Audit, matches
from qualify.audit.relocations import Relocations
from qualify.audit.wheel import Wheel, file_name

LOADER = re.compile(r"ld(64|-linux|-musl)")
ORIGIN = re.compile(r"\$(ORIGIN|\{ORIGIN\})(?=/|$)")


class How(enum.IntEnum):
    """How a library is found, from the best to the worst."""

    SEARCHED = 0
    FIRST = 1
    """Its package has loaded it before, as `audit.provided` says."""
    HOST = 2
    UNREACHED = 3
    """It is installed, where the file does not search."""
    MISSING = 4


class Library(msgspec.Struct, frozen=True, eq=False):
    """An ELF file that a loader takes; `eq=False`: one is itself."""

    wheel: Wheel
    distribution: str
    member: str
    place: str
    elf: Elf
    relocations: Relocations
    digest: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.member)

    @property
    def names(self) -> set[str]:
        """Those that it is needed by."""
        return {self.elf.soname, self.name} - {""}

    @property
    def identity(self) -> str:
        """The same for copies, also where a tool has changed the name or the search path."""
        return self.elf.build_id or self.digest


class Link(msgspec.Struct, frozen=True, eq=False):
    how: How
    file: Library | None = None


class Installed(msgspec.Struct, frozen=True):
    libraries: dict[str, Library]
    """By place."""
    links: dict[str, dict[str, Link]]
    """Of the library at a place, for each name that it needs; the worst that was found."""
    scopes: tuple[tuple[Library, ...], ...]
    """What is loaded for each file that no other needs, in the order of look-up."""

    def closure(self, library: Library) -> tuple[list[Library], set[str]]:
        """All files that it leads to, itself first, and the names that are no file of the set."""
        files, names, seen = [library], set[str](), {library.place}
        for file in files:
            for name, link in self.links[file.place].items():
                if link.file is None:
                    names.add(name)
                elif link.file.place not in seen:
                    seen.add(link.file.place)
                    files.append(link.file)
        return files, names


def resolve(wheels: list[Wheel], audit: Audit) -> Installed:
    """Of two wheels that install one path, which is a finding of its own, the first has it."""
    libraries: dict[str, Library] = {}
    for library in (each for wheel in wheels for each in of_wheel(wheel)):
        libraries.setdefault(library.place, library)
    loader = _Loader(libraries, {w.name: _promise(w) for w in wheels}, audit)
    needed = {name for library in libraries.values() for name in library.elf.needed}
    roots = [each for each in libraries.values() if not each.names & needed]
    scopes = [loader.load(root) for root in roots]
    for library in libraries.values():  # those that need each other in a ring have no root
        if library.place not in loader.links:
            scopes.append(loader.load(library))
    return Installed(libraries, loader.links, tuple(scopes))


def of_wheel(wheel: Wheel) -> Iterator[Library]:
    name = file_name(wheel)
    distribution = name[0] if name else ""
    entries = {member.name: member.entry for member in wheel.archive.members}
    for member, binary in wheel.binaries.items():
        facts = binary.elf
        if facts is None or not facts.machine or facts.kind == elf.RELOCATABLE:
            continue
        digest = wheel.contents[entries[member]].digest
        place = place_of(member, distribution)
        yield Library(wheel, distribution, member, place, facts, binary.relocations, digest)


def _promise(wheel: Wheel) -> Promise:
    name = file_name(wheel)
    return platform_tag.promised(name[3] if name else frozenset())


class _Loader:
    def __init__(
        self, libraries: dict[str, Library], promises: dict[str, Promise], audit: Audit
    ) -> None:
        self.libraries = libraries
        self.promises = promises
        self.audit = audit
        self.links: dict[str, dict[str, Link]] = {}
        self.by_name: defaultdict[str, list[Library]] = defaultdict(list)
        for library in libraries.values():
            for name in library.names:
                self.by_name[name].append(library)

    def load(self, root: Library) -> tuple[Library, ...]:
        scope = [root]
        chains: dict[str, tuple[Library, ...]] = {root.place: (root,)}
        loaded = dict.fromkeys(root.names, root)
        for file in scope:
            links = self.links.setdefault(file.place, {})
            for name in file.elf.needed:
                link = self._link(chains[file.place], name, loaded)
                if name not in links or link.how > links[name].how:
                    links[name] = link
                if (found := link.file) and found.place not in chains:
                    scope.append(found)
                    chains[found.place] = (found, *chains[file.place])
                    loaded.update({name: found, **dict.fromkeys(found.names, found)})
        return tuple(scope)

    def _link(self, chain: tuple[Library, ...], name: str, loaded: dict[str, Library]) -> Link:
        """`chain` is the file, what loaded it, and so on."""
        file = chain[0]
        if name in loaded:
            return Link(How.SEARCHED, loaded[name])
        for place in _searched(chain, name):
            found = self.libraries.get(place)
            if found and found.elf.machine == file.elf.machine:
                return Link(How.SEARCHED, found)
        fits = [each for each in self.by_name[name] if each.elf.machine == file.elf.machine]
        for owner, patterns in self.audit.provided.items():
            if matches(name, patterns):
                own = next((each for each in fits if each.distribution == owner), None)
                if own or all(owner != each.distribution for each in self.libraries.values()):
                    return Link(How.FIRST, own)
        if self._is_host(file, name):
            return Link(How.HOST)
        nearest = sorted(fits, key=lambda each: each.wheel is not file.wheel)
        return Link(How.UNREACHED, nearest[0]) if nearest else Link(How.MISSING)

    def _is_host(self, file: Library, name: str) -> bool:
        promise = self.promises[file.wheel.name]
        if LOADER.match(name):
            return True
        system = platform_tag.system(file.elf.machine, promise).libraries
        return name in system or matches(name, self.audit.host_libraries)


def _searched(chain: tuple[Library, ...], name: str) -> Iterator[str]:
    """The places below the prefix; a RUNPATH is the file's own, and ends RPATH."""
    file = chain[0]
    if file.elf.runpath:
        yield from _places(file, file.elf.runpath, name)
        return
    for each in chain:
        if not each.elf.runpath:
            yield from _places(each, each.elf.rpath, name)


def _places(library: Library, entries: tuple[str, ...], name: str) -> Iterator[str]:
    folder = posixpath.dirname(library.place)
    for entry in entries:
        if origin := ORIGIN.match(entry):
            yield posixpath.normpath(f"{folder}/{entry[origin.end() :]}/{name}")
