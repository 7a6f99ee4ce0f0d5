"""Findings of libraries and symbols over all wheels that are installed together, or over one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from qualify.audit import closure, elf, platform_tag
from qualify.audit.closure import How, Installed, Library, Link
from qualify.audit.elf import Undefined
from qualify.audit.finding import Finding
from qualify.audit.policy import Audit, matches
from qualify.audit.wheel import Wheel, file_name, requirements

PYTHON = re.compile(r"_?Py")
OPENMP = re.compile(r"lib(g|i|)omp\d*(-\w+)?\.so")
MOST_STATIC_TLS = 1664
"""Bytes that glibc sets aside for what is loaded later (TLS_STATIC_SURPLUS, up to 2.31; by default
about as many since: in 2.36 1700 are enough and 1720 are not)."""
STANDARD = re.compile(r"_Z(?:T[ISV])?N?K?(?:S[tabsiod]|9__gnu_cxx)|__(?:cxa|gxx)_")
"""Of the C++ standard library: toolchains that are newer than the system's put parts of it into
each file that they link."""

Said = Iterator[tuple[str, str]]


def judge(wheels: list[Wheel], audit: Audit) -> Iterator[Finding]:
    installed = closure.resolve(wheels, audit)
    required = _required(wheels)
    for library in installed.libraries.values():
        links = installed.links[library.place]
        needs = required.get(library.distribution, set())
        for said in (
            _needed(library, links, audit, needs),
            _versions(library, links),
            _symbols(library, installed),
        ):
            for id, got in said:
                yield _at(library, id, got)
    yield from _providers(installed)
    yield from _copies(installed)
    yield from _static_tls(installed)


def _at(library: Library, id: str, got: str) -> Finding:
    return Finding(
        id=id,
        wheel=library.wheel.name,
        member=library.member,
        offset=library.elf.dynamic,
        got=got,
    )


def _required(wheels: list[Wheel]) -> dict[str, set[str]]:
    """What an install of each distribution brings, as far as wheels of the set say it."""
    direct: dict[str, set[str]] = {}
    for wheel in wheels:
        if name := file_name(wheel):
            names = direct.setdefault(name[0], set())
            names.update(canonicalize_name(each.name) for _, each in requirements(wheel))
    whole = {name: set(names) for name, names in direct.items()}
    for names in whole.values():
        todo = list(names)
        while todo:
            new = direct.get(todo.pop(), set()) - names
            names |= new
            todo += new
    return whole


def _needed(library: Library, links: dict[str, Link], audit: Audit, required: set[str]) -> Said:
    for name in library.elf.needed:
        link = links[name]
        if "/" in name:
            yield "needed-path", name
        elif re.match(r"libpython\d", name):
            yield "needed-python", name
        elif link.how is How.MISSING:
            yield "needed-missing", name
        elif link.how is How.UNREACHED:
            assert link.file is not None
            path = ":".join((*library.elf.rpath, *library.elf.runpath)) or "none"
            yield "needed-unreached", f"{name}, at {_told(link.file, library)}; search path {path}"
        else:
            owners = _owners(library, name, link, audit)
            if owners and not owners & (required | {library.distribution}):
                yield "needed-undeclared", f"{name}, of {' or '.join(sorted(owners))}"


def _owners(library: Library, name: str, link: Link, audit: Audit) -> set[str]:
    """Of a library of another package: the distributions that bring it."""
    if link.file is not None:
        return {link.file.distribution}
    if link.how is not How.FIRST:
        return set()
    return {owner for owner, patterns in audit.provided.items() if matches(name, patterns)}


def _told(library: Library, seen_from: Library) -> str:
    same = library.wheel is seen_from.wheel
    return library.member if same else f"{library.wheel.name}/{library.member}"


def _versions(library: Library, links: dict[str, Link]) -> Said:
    for need in library.elf.versions:
        link = links.get(need.library)
        if link is None or link.file is None:
            continue
        defines = link.file.elf.defines  # of a file without any, a loader takes what it has
        if defines and need.version not in defines:
            newest = ", ".join(sorted(defines)[-3:])
            got = f"{need.version} of {need.library}; {_told(link.file, library)} has {newest}"
            yield "version-missing", got


def _symbols(library: Library, installed: Installed) -> Said:
    """Undefined symbols where the whole closure can be seen: files of the set, and libraries of
    the host whose symbols all have versions. What each process has (the C library, Python) may be
    needed without a version and without naming its library; what another file of the wheel has,
    by a program that takes this one as its plug-in."""
    facts, moved = library.elf, library.relocations
    used = moved.data | moved.calls
    links = installed.links[library.place]
    own_versions = {
        need.version
        for need in facts.versions
        if (link := links.get(need.library)) and link.file
        if need.version in link.file.elf.defines
    }
    wanted = [
        each
        for each in facts.undefined
        if not each.weak
        and each.index in used
        and not PYTHON.match(each.name)
        and (not each.version or each.version in own_versions)
    ]
    if not wanted or not (facts.needed or facts.modules):
        return  # of what needs nothing, unless Python imports it, another has to be loaded before
    files, host = installed.closure(library)
    if any(not _is_versioned(name) for name in host):
        return
    beside = [each for each in installed.libraries.values() if each.wheel is library.wheel]
    glibc = platform_tag.glibc_symbols()
    missing = [
        each
        for each in wanted
        if not any(_defines(file, each) for file in (*files, *beside))
        and each.name.encode() not in glibc
    ]
    if missing:
        at_load = facts.bind_now or any(each.index in moved.data for each in missing)
        names = [each.name + (f"@{each.version}" if each.version else "") for each in missing]
        yield "undefined-symbol", f"{_some(names)}, {'at load' if at_load else 'at a call'}"


def _is_versioned(name: str) -> bool:
    return name in platform_tag.VERSIONED or closure.LOADER.match(name) is not None


def _defines(library: Library, wanted: Undefined) -> bool:
    name = wanted.name.encode()
    if wanted.version and library.elf.defines:
        return name + b"@" + wanted.version.encode() in library.elf.versioned
    return name in library.elf.defined


def _some(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _providers(installed: Installed) -> Iterator[Finding]:
    """Symbols that a file needs and two others of its look-up define, each with code of its own:
    the first is taken. Weak ones are meant to be defined by several, and the standard library's
    are the same in all; what a program defines is its copy of a library's (copy relocations), or
    meant to come first."""
    wants = {
        place: frozenset(
            u.name.encode()
            for u in each.elf.undefined
            if not u.version and not STANDARD.match(u.name)
        )
        for place, each in installed.libraries.items()
    }
    found: defaultdict[tuple[str, str], dict[str, Library]] = defaultdict(dict)
    for scope in installed.scopes:
        libraries = [each for each in scope if not each.elf.interpreter]
        needed = frozenset[bytes]().union(*(wants[each.place] for each in libraries))
        first: dict[bytes, Library] = {}
        for library in libraries:
            for name in (needed & library.elf.defined) - library.elf.weak:
                before = first.setdefault(name, library)
                if before.identity != library.identity:
                    needing = next(each for each in libraries if name in wants[each.place])
                    found[before.place, library.place].setdefault(_text(name), needing)
    for (one, other), symbols in found.items():
        taken, passed = installed.libraries[one], installed.libraries[other]
        names = sorted(symbols)
        needing = symbols[names[0]]
        got = f"{_some(names)}, which {_told(needing, passed)} needs"
        yield _at(passed, "symbol-two-providers", f"{got}; {_told(taken, passed)} is before it")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _static_tls(installed: Installed) -> Iterator[Finding]:
    """Of what Python loads at an import; what a program starts with gets as much as it needs."""
    told: set[str] = set()
    for scope in installed.scopes:
        sizes = {
            library.place: sum(segment.memory for segment in library.elf.of(elf.TLS))
            for library in scope
            if (library.elf.value(elf.FLAGS) or 0) & elf.FLAG_STATIC_TLS
        }
        if not scope[0].elf.modules or sum(sizes.values()) <= MOST_STATIC_TLS:
            continue
        largest = max(sizes, key=lambda place: sizes[place])
        if largest not in told:
            told.add(largest)
            others = (
                f", {sum(sizes.values())} with what it is loaded with" if len(sizes) > 1 else ""
            )
            got = f"{sizes[largest]} bytes{others}"
            yield _at(installed.libraries[largest], "static-tls", got)


def _copies(installed: Installed) -> Iterator[Finding]:
    needed = {name for each in installed.libraries.values() for name in each.elf.needed}
    sonames: defaultdict[str, list[Library]] = defaultdict(list)
    identities: dict[str, Library] = {}
    runtimes: dict[str, Library] = {}
    for library in installed.libraries.values():
        if library.elf.soname in needed:
            sonames[library.elf.soname].append(library)
        if kind := OPENMP.match(library.name):
            runtimes.setdefault(kind[1], library)
        first = identities.setdefault(library.identity, library)
        if first.wheel is not library.wheel:
            yield _at(library, "library-copied", f"it is {_told(first, library)} too")
    for soname, (first, *others) in sonames.items():
        other = next((each for each in others if each.identity != first.identity), None)
        if other is not None:
            yield _at(other, "library-twice", f"{soname} is {_told(first, other)} too")
    if len(runtimes) > 1:
        one, two, *_ = runtimes.values()
        yield _at(two, "two-openmp", f"beside {_told(one, two)}")
