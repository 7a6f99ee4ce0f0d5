"""Findings of compiled code: does it load, from where, on every system that the tag promises?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from packaging.tags import Tag

from qualify.audit import elf, fields, platform_tag, stable_abi
from qualify.audit.elf import Elf
from qualify.audit.finding import Finding, some
from qualify.audit.judge_extension import CPYTHON
from qualify.audit.layout import installed_path
from qualify.audit.platform_tag import Promise
from qualify.audit.policy import Audit, matches
from qualify.audit.wheel import Binary, Wheel, file_name

BASELINE = 1
"""The bit of x86's instruction-set levels that every such machine has."""
STACK_IS_EXECUTABLE = ("x86_64", "i686", "armv7l", "s390x", "ppc64")
"""Where glibc gives an executable stack to a file that says nothing (DEFAULT_STACK_PERMS)."""

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
        if debug := binary.debug:
            built = f", of a build in {debug.folder}" if debug.folder else ""
            said.append(("debug-information", debug.offset, f"{debug.bytes} bytes{built}"))
        yield from _findings(wheel, member, said)
    names = {posixpath.basename(m) for m in good} | {e.soname for e in good.values()}
    for member, facts in good.items():
        yield from _findings(wheel, member, _search(member, facts))
        yield from _findings(wheel, member, _segments(facts, audit))
        yield from _findings(wheel, member, _moved(facts, wheel.binaries[member], promise))
        yield from _findings(wheel, member, _tagged(member, facts, tags, promise))
        yield from _findings(wheel, member, _versions(facts, names, promise))
    if name and (ours := audit.promise(name[0])):
        for member, said in _exports(good, audit.exports.get(name[0], {})):
            yield from _findings(wheel, member, said)
        for member, facts in good.items() if ours.hardened else ():
            yield from _findings(wheel, member, _hardened(facts))
    yield from _pure(wheel, good, promise)


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
    if facts.isa_needed & ~BASELINE:
        level = facts.isa_needed.bit_length()
        yield "isa-level", facts.of(elf.PROPERTY)[0].offset, f"x86-64-v{level}"
    if (path := facts.interpreter) and not matches(path, audit.interpreters.get(facts.machine, ())):
        yield "interpreter-path", facts.of(elf.INTERP)[0].offset, path


def _moved(facts: Elf, binary: Binary, promise: Promise) -> Said:
    moved = binary.relocations
    if moved.text is not None:
        word = "" if facts.text_relocations else ", and no DT_TEXTREL: a crash at load"
        yield "text-relocations", moved.text, f"a relocation of bytes that are not writable{word}"
    elif facts.text_relocations:
        yield "text-relocations", facts.dynamic, "DT_TEXTREL"
    ask = binary.extension
    if ask and not any(each.startswith("x86_64_v") for each in promise.architectures):
        yield "isa-at-load", ask.offset, f"{ask.name}: {ask.instruction}"
    if promise.musl and moved.indirect is not None:
        yield "ifunc-musl", moved.indirect, "a symbol or relocation of an indirect function"


def _exports(
    good: dict[str, Elf], listed: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """Of a member that is not there, all exports are missing. A program exports to nobody."""
    libraries = [m for m, facts in good.items() if facts.soname and not facts.interpreter]
    for member in dict.fromkeys((*listed, *libraries)):
        facts = good.get(member)
        found, wanted = exported(facts) if facts else set[str](), set(listed.get(member, ()))
        at = facts.dynamic if facts else 0
        if unlisted := sorted(found - wanted):
            yield member, [("export-unlisted", at, some(unlisted))]
        if missing := sorted(wanted - found):
            yield member, [("export-missing", at, some(missing))]


def exported(facts: Elf) -> set[str]:
    """As in matrix/exports.toml. The symbol that linkers add for each version is left out."""
    with_version = {name.partition(b"@")[0] for name in facts.versioned}
    names = facts.versioned | (facts.defined - with_version)
    texts = {name.decode("utf-8", "backslashreplace") for name in names}
    return texts - {f"{version}@{version}" for version in facts.defines}


def _hardened(facts: Elf) -> Said:
    if facts.dynamic and not facts.of(elf.RELRO):
        yield "relro-missing", facts.dynamic, "no PT_GNU_RELRO"
    if facts.dynamic and not facts.bind_now:
        yield "bind-now-missing", facts.dynamic, "neither DF_BIND_NOW nor DF_1_NOW"
    if not facts.build_id:
        yield "build-id-missing", facts.dynamic, "no NT_GNU_BUILD_ID"


def _tagged(member: str, facts: Elf, tags: frozenset[Tag], promise: Promise) -> Said:
    if promise.architectures and not _runs_on(facts.machine, promise.architectures):
        got = f"{facts.machine}, the tag is for {', '.join(sorted(promise.architectures))}"
        yield "elf-machine", 0, got
    python = [
        each.name
        for each in facts.undefined
        if not each.weak and stable_abi.PYTHON.match(each.name)
    ]
    if python and tags and all((tag.abi, tag.interpreter[:2]) == ("none", "py") for tag in tags):
        yield "python-symbol", facts.dynamic, some(python)
    if (oldest := stable_abi.since(tags)) and not CPYTHON.search(member):
        symbols: dict[str, list[str]] = {}
        for id, symbol in stable_abi.wrong(facts.undefined, oldest):
            symbols.setdefault(id, []).append(symbol)
        for id, names in symbols.items():
            yield id, facts.dynamic, f"{some(names)}; the tag is for {oldest} and later"


def _runs_on(machine: str, architectures: frozenset[str]) -> bool:
    return any(a == machine or a.startswith(f"{machine}_v") for a in architectures)


def _pure(wheel: Wheel, good: dict[str, Elf], promise: Promise) -> Iterator[Finding]:
    """Once for a wheel that says it is for any platform, or of pure Python."""
    pure = fields.read(wheel.text("WHEEL") or "").value("root-is-purelib").lower() == "true"
    inside = [member for member in good if promise.any or ".data/" not in member]
    if inside and (promise.any or pure):
        id = "tag-any-binary" if promise.any else "wheel-purelib-binary"
        got = f"{some(inside)}, for {good[inside[0]].machine}"
        yield Finding(id=id, wheel=wheel.name, member=inside[0], offset=0, got=got)


def _versions(facts: Elf, names: set[str], promise: Promise) -> Said:
    newest = platform_tag.system(facts.machine, promise).newest
    new = [
        need
        for need in facts.versions
        if need.library not in names and platform_tag.too_new(need.version, newest)
    ]
    private = {each.library for each in facts.versions if each.version == platform_tag.PRIVATE}
    if private := private - names:
        yield "glibc-private", facts.dynamic, f"of {', '.join(sorted(private))}"
    if new:
        listed = ", ".join(f"{need.version} of {need.library}" for need in new)
        glibc = ".".join(map(str, promise.glibc or ()))
        yield "tag-too-old", facts.dynamic, f"{listed}; the tag promises glibc {glibc}"
