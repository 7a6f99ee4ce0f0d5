"""Findings of extension modules: does the Python of the tag find the file, and load it?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from packaging.tags import Tag

from qualify.audit import elf, platform_tag
from qualify.audit.elf import MACHINES, Elf
from qualify.audit.finding import Finding, some
from qualify.audit.platform_tag import Promise
from qualify.audit.wheel import Binary, Wheel, file_name

CPYTHON = re.compile(r"\.cpython-3(\d+)([a-z]*)-([\w-]+)\.so$")
"""Minor version, flags of the ABI, and for which system."""
NAMED = re.compile(r"\.(?:(?:cpython|pypy|graalpy)[\w-]*|abi3t?)\.so$|\.pyd$")
INIT = b"PyInit_"
FORMATS = {
    "ELF": (elf.MAGIC,),
    "Mach-O": tuple(
        bytes.fromhex(magic) for magic in ("cffaedfe", "cefaedfe", "cafebabe", "cafebabf")
    ),
    "PE": (b"MZ",),
}
MUSL_NAMED = 11
"""Of Python 3: the first whose suffix tells musl from glibc (gh-87278)."""

Said = Iterator[tuple[str, str]]


def judge(wheel: Wheel) -> Iterator[Finding]:
    name = file_name(wheel)
    tags = name[3] if name else frozenset[Tag]()
    promise = platform_tag.promised(tags)
    pythons = {(found[1], found[2]) for m in wheel.binaries if (found := CPYTHON.search(m))}
    for member in filter(NAMED.search, wheel.heads):
        binary = wheel.binaries.get(member)
        for id, got in _format(member, wheel.heads[member], binary, tags, promise):
            yield Finding(id=id, wheel=wheel.name, member=member, offset=0, got=got)
        if binary and (facts := binary.elf) and facts.machine and facts.kind != elf.RELOCATABLE:
            for id, got in (*_suffix(member, facts, tags, promise, pythons), *_init(member, facts)):
                yield Finding(id=id, wheel=wheel.name, member=member, offset=0, got=got)


def _format(
    member: str, head: bytes, binary: Binary | None, tags: frozenset[Tag], promise: Promise
) -> Said:
    wanted = _formats(member, tags)
    got = next((form for form, magics in FORMATS.items() if head.startswith(magics)), "")
    if not wanted:
        return
    if got not in wanted:
        found = got or (f"it begins with {head[:40]!r}" if head else "it is empty")
        yield "extension-format", f"{found}, where {' or '.join(sorted(wanted))} is loaded"
    elif binary and binary.elf and got == "ELF":
        if binary.elf.kind != elf.SHARED:
            yield "extension-format", f"an ELF file of type {binary.elf.kind}, no shared object"
        elif not binary.elf.machine and promise.architectures <= _machines():
            known = ", ".join(sorted(promise.architectures)) or "any host"
            yield "extension-format", f"an ELF file for no such machine as {known}"


def _machines() -> set[str]:
    return {*MACHINES.values(), "ppc64le"}


def _formats(member: str, tags: frozenset[Tag]) -> set[str]:
    """Those that one of the systems takes for which the file is; none where that is not known."""
    if member.endswith(".pyd"):
        return {"PE"}
    for word, form in (("linux", "ELF"), ("darwin", "Mach-O")):
        if word in posixpath.basename(member):
            return {form}
    systems = (("linux", "ELF"), ("macosx", "Mach-O"))
    found = {form for tag in tags for word, form in systems if word in tag.platform}
    return found if all("linux" in t.platform or "macosx" in t.platform for t in tags) else set()


def _suffix(
    member: str,
    facts: Elf,
    tags: frozenset[Tag],
    promise: Promise,
    pythons: set[tuple[str, str]],
) -> Said:
    suffix = CPYTHON.search(member)
    if suffix is None:
        return
    minor, flags, system = suffix.groups()
    wanted = [tag for tag in tags if tag.interpreter.startswith("cp")]
    architecture = platform_tag.TRIPLETS.get(facts.machine, facts.machine)
    if (
        system.partition("-")[0] != architecture
        or _other_libc(int(minor), system, promise)
        or (wanted and not any(_looks_for(tag, minor, flags) for tag in wanted))
        or (any(tag.abi == "abi3" for tag in tags) and len(pythons) == 1)
    ):
        names = sorted({f"{tag.interpreter}-{tag.abi}-{tag.platform}" for tag in tags})
        told = f", the tag is {some(names)}" if names else ""
        yield "extension-suffix", f"{suffix[0]}{told}"


def _looks_for(tag: Tag, minor: str, flags: str) -> bool:
    """A debug build (d) takes the modules of one that is none."""
    own = f"cp3{minor}"
    abis = {tag.abi, tag.abi.removesuffix("d")}
    return tag.interpreter == own and (tag.abi in ("none", "abi3") or f"{own}{flags}" in abis)


def _other_libc(minor: int, system: str, promise: Promise) -> bool:
    if "musl" in system:
        return promise.glibc is not None and not promise.musl
    only_musl = promise.musl and promise.glibc is None
    return only_musl and "gnu" in system and minor >= MUSL_NAMED


def _init(member: str, facts: Elf) -> Said:
    """Of a file with no such function at all, which code may open otherwise, nothing."""
    found = sorted(name for name in facts.defined if name.startswith(INIT)) if facts.modules else []
    folder, _, base = member.rpartition("/")
    name = base.partition(".")[0]
    if name == "__init__":  # of a package, by the name of its folder
        name = posixpath.basename(folder)
    if found and name.isascii() and INIT + name.encode() not in found:
        told = some([each.decode("utf-8", "backslashreplace") for each in found])
        yield "extension-init", f"{told}, no PyInit_{name}"
