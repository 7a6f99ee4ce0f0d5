"""Findings of compiled code: does it load, from where, on every system that the tag promises?"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from qualify.audit import elf, fields, platform_tag
from qualify.audit.elf import Elf
from qualify.audit.finding import Finding
from qualify.audit.judge_metadata import file_name, installed_path
from qualify.audit.platform_tag import Promise
from qualify.audit.policy import Audit, matches
from qualify.audit.wheel import Wheel, metadata

BASELINE = 1
"""The bit of x86's instruction-set levels that every such machine has."""
STACK_IS_EXECUTABLE = ("x86_64", "i686", "armv7l", "s390x", "ppc64")
"""Where glibc gives an executable stack to a file that says nothing (DEFAULT_STACK_PERMS)."""
OPENMP = re.compile(r"lib(g|i|)omp\d*(-\w+)?\.so")
LOADER = re.compile(r"ld(64|-linux|-musl)")
SUFFIX = re.compile(r"\.(?:cpython-(\d)(\d+)\w*-([\w-]+)|abi3)\.so$")

Said = Iterator[tuple[str, int, str]]


def judge(wheel: Wheel, audit: Audit) -> Iterator[Finding]:
    name = file_name(wheel)
    tags = name[3] if name else frozenset[Tag]()
    promise = platform_tag.promised(tags)
    good: dict[str, Elf] = {}
    for member, binary in wheel.binaries.items():
        said: list[tuple[str, int, str]] = []
        if binary.elf is not None and binary.elf.machine and binary.elf.kind != elf.RELOCATABLE:
            good[member] = binary.elf
        elif binary.damage:
            said.append(("elf-damaged", *binary.damage))
        if paths := binary.build_paths:
            more = f" and {paths.count - 1} more" if paths.count > 1 else ""
            said.append(("build-path", paths.offset, paths.first + more))
        yield from _findings(wheel, member, said)
    names = {posixpath.basename(m) for m in good} | {e.soname for e in good.values()}
    suffixes = {found[1] + found[2] for m in good if (found := SUFFIX.search(m)) and found[1]}
    required = _required(wheel)
    for member, facts in good.items():
        yield from _findings(wheel, member, _search(member, facts))
        yield from _findings(wheel, member, _segments(facts, audit))
        yield from _findings(wheel, member, _tagged(member, facts, tags, promise, suffixes))
        yield from _findings(wheel, member, _needed(facts, names, promise, audit, required))
        yield from _findings(wheel, member, _versions(facts, names, promise))
    for member, said in _symbols(good, promise):
        yield from _findings(wheel, member, said)
    if name and (listed := audit.promise(name[0])):
        for member, symbols in listed.exports.items():
            yield from _findings(wheel, member, _exports(good.get(member), symbols))
    yield from _pure(wheel, good, promise)
    yield from _copies(wheel, good)


def _findings(
    wheel: Wheel, member: str, said: Said | list[tuple[str, int, str]]
) -> Iterator[Finding]:
    for id, offset, got in said:
        yield Finding(id=id, wheel=wheel.name, member=member, offset=offset, got=got)


def _search(member: str, facts: Elf) -> Said:
    """One finding for each kind of wrong entry of a search path."""
    folder = posixpath.dirname(installed_path(member))
    for kind, entries in (("RPATH", facts.rpath), ("RUNPATH", facts.runpath)):
        wrong = dict.fromkeys(_entry(entry, folder) for entry in entries)
        for id in filter(None, wrong):
            yield id, facts.dynamic, f"{kind} {':'.join(entries)}"


def _entry(entry: str, folder: str) -> str:
    if not entry:
        return "runpath-empty"
    origin = re.match(r"\$(ORIGIN|\{ORIGIN\})(?=/|$)", entry)
    if not origin:
        return "runpath-absolute" if entry[0] in "/$" else "runpath-relative"
    target = posixpath.normpath(f"./{folder}/{entry[origin.end() :]}")
    elsewhere = ".data/" in folder  # scripts and data are installed in other folders
    return "runpath-outside" if target.split("/")[0] == ".." and not elsewhere else ""


def _segments(facts: Elf, audit: Audit) -> Said:
    stacks = facts.of(elf.STACK)
    for segment in stacks:
        if segment.flags & elf.EXECUTE:
            yield "execstack", segment.header, f"flags {segment.flags:#x} of PT_GNU_STACK"
    if not stacks and facts.machine in STACK_IS_EXECUTABLE and facts.dynamic:
        yield "execstack", 0, "no PT_GNU_STACK, which means an executable one here"
    for segment in facts.of(elf.LOAD):
        if segment.flags & elf.WRITE and segment.flags & elf.EXECUTE:
            yield "writable-code", segment.header, f"flags {segment.flags:#x} of PT_LOAD"
    if facts.text_relocations:
        yield "text-relocations", facts.dynamic, "DT_TEXTREL"
    if facts.isa_needed & ~BASELINE:
        level = facts.isa_needed.bit_length()
        yield "isa-level", facts.of(elf.PROPERTY)[0].offset, f"x86-64-v{level}"
    if (path := facts.interpreter) and not matches(path, audit.interpreters.get(facts.machine, ())):
        yield "interpreter-path", facts.of(elf.INTERP)[0].offset, path


def _exports(facts: Elf | None, symbols: tuple[str, ...]) -> Said:
    """Of a member that is not there, all exports are missing."""
    defined = sorted(name.decode("ascii", "replace") for name in facts.defined) if facts else []
    at = facts.dynamic if facts else 0
    if unlisted := [name for name in defined if not matches(name, symbols)]:
        yield "export-unlisted", at, _some(unlisted)
    if missing := [
        pattern for pattern in symbols if not any(matches(n, (pattern,)) for n in defined)
    ]:
        yield "export-missing", at, _some(missing)


def _some(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _tagged(
    member: str,
    facts: Elf,
    tags: frozenset[Tag],
    promise: Promise,
    suffixes: set[str],
) -> Said:
    if promise.architectures and not _runs_on(facts.machine, promise.architectures):
        got = f"{facts.machine}, the tag is for {', '.join(sorted(promise.architectures))}"
        yield "elf-machine", 0, got
    python = [u.name for u in facts.undefined if not u.weak and re.match(r"_?Py[A-Z_]", u.name)]
    if python and tags and all((tag.abi, tag.interpreter[:2]) == ("none", "py") for tag in tags):
        yield "python-symbol", facts.dynamic, _some(python)
    suffix = SUFFIX.search(member)
    if not suffix or not suffix[1]:
        return
    own = f"cp{suffix[1]}{suffix[2]}"
    wanted = {tag.interpreter for tag in tags if tag.interpreter.startswith("cp")}
    stable = any(tag.abi == "abi3" for tag in tags)
    triplet = platform_tag.TRIPLETS.get(facts.machine, facts.machine)
    elsewhere = suffix[3].partition("-")[0] != triplet
    if elsewhere or (wanted and own not in wanted) or (stable and len(suffixes) == 1):
        yield "extension-suffix", 0, f"{suffix[0]}, the tag is {_short(tags)}"


def _runs_on(machine: str, architectures: frozenset[str]) -> bool:
    return any(a == machine or a.startswith(f"{machine}_v") for a in architectures)


def _short(tags: frozenset[Tag]) -> str:
    return ", ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}))


def _pure(wheel: Wheel, good: dict[str, Elf], promise: Promise) -> Iterator[Finding]:
    """Once for a wheel that says it is for any platform, or of pure Python."""
    pure = fields.read(wheel.text("WHEEL") or "").value("root-is-purelib").lower() == "true"
    inside = [member for member in good if promise.any or ".data/" not in member]
    if inside and (promise.any or pure):
        id = "tag-any-binary" if promise.any else "wheel-purelib-binary"
        got = f"{_some(inside)}, for {good[inside[0]].machine}"
        yield Finding(id=id, wheel=wheel.name, member=inside[0], offset=0, got=got)


def _needed(
    facts: Elf, names: set[str], promise: Promise, audit: Audit, required: set[str]
) -> Said:
    system = platform_tag.system(facts.machine, promise).libraries
    for library in facts.needed:
        if "/" in library:
            yield "needed-path", facts.dynamic, library
        elif re.match(r"libpython\d", library):
            yield "needed-python", facts.dynamic, library
        elif library in names or library in system or LOADER.match(library):
            continue
        elif not matches(library, audit.host_libraries):
            owners = [o for o, patterns in audit.provided.items() if matches(library, patterns)]
            if not owners:
                yield "needed-missing", facts.dynamic, library
            elif not required & set(owners):
                yield "needed-undeclared", facts.dynamic, f"{library}, of {' or '.join(owners)}"


def _required(wheel: Wheel) -> set[str]:
    found: set[str] = set()
    for field in metadata(wheel).all("requires-dist"):
        try:
            found.add(canonicalize_name(Requirement(field.value).name))
        except InvalidRequirement:
            continue  # a finding of METADATA
    return found


def _versions(facts: Elf, names: set[str], promise: Promise) -> Said:
    newest = platform_tag.system(facts.machine, promise).newest
    new = [
        need
        for need in facts.versions
        if need.library not in names and platform_tag.too_new(need.version, newest)
    ]
    if new:
        listed = ", ".join(f"{need.version} of {need.library}" for need in new)
        glibc = ".".join(map(str, promise.glibc or ()))
        yield "tag-too-old", facts.dynamic, f"{listed}; the tag promises glibc {glibc}"


def _symbols(
    good: dict[str, Elf], promise: Promise
) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """Undefined symbols where the whole closure can be seen: libraries of the wheel, and those of
    the host whose symbols all have versions. What each process has (the C library, Python) may
    be needed without a version and without naming its library."""
    if promise.musl:
        return  # its libc has no symbol versions
    by_name: dict[str, Elf] = {}
    for member, facts in good.items():
        by_name.setdefault(posixpath.basename(member), facts)
        by_name.setdefault(facts.soname, facts)
    defined: frozenset[bytes] | None = None
    for member, facts in good.items():
        wanted = [u.name for u in facts.undefined if not u.version and not u.weak]
        wanted = [name for name in wanted if not re.match(r"_?Py", name)]
        if not wanted or not facts.needed or not _is_closed(facts, by_name):
            continue
        if defined is None:
            defined = platform_tag.glibc_symbols().union(*(e.defined for e in good.values()))
        if missing := [name for name in wanted if name.encode() not in defined]:
            yield member, [("undefined-symbol", facts.dynamic, _some(missing))]


def _is_closed(facts: Elf, by_name: dict[str, Elf]) -> bool:
    todo, seen = list(facts.needed), set[str]()
    while todo:
        library = todo.pop()
        if library in seen or library in platform_tag.VERSIONED or LOADER.match(library):
            continue
        seen.add(library)
        if library not in by_name:
            return False
        todo.extend(by_name[library].needed)
    return True


def _copies(wheel: Wheel, good: dict[str, Elf]) -> Iterator[Finding]:
    digests = {
        m.name: c.digest for m in wheel.archive.members if (c := wheel.contents.get(m.entry))
    }
    sonames: defaultdict[str, list[str]] = defaultdict(list)
    runtimes: dict[str, str] = {}
    for member, facts in good.items():
        if facts.soname:
            sonames[facts.soname].append(member)
        if kind := OPENMP.match(posixpath.basename(member)):
            runtimes.setdefault(kind[1], member)
    for soname, members in sonames.items():
        if len({digests[m] for m in members}) > 1:
            got = f"{soname} is {members[0]} too"
            yield Finding(id="library-twice", wheel=wheel.name, member=members[1], got=got)
    if len(runtimes) > 1:
        first, second, *_ = runtimes.values()
        yield Finding(id="two-openmp", wheel=wheel.name, member=second, got=f"beside {first}")
