"""Findings of the list of contents: strays, modes, sizes, and what policy promises of a wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qualify.audit.finding import Finding
from qualify.audit.layout import installed_path
from qualify.audit.policy import Audit, Promise, matches
from qualify.audit.wheel import Wheel, file_name

SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")
SCRIPT = re.compile(r"[^/]+\.data/scripts/")
SYSTEM = re.compile(r"python|(?:/usr)?/s?bin/")
EXECUTE = 0o111


def judge(wheel: Wheel, audit: Audit) -> Iterator[Finding]:
    if wheel.archive.flaws:
        return
    promise = audit.promise(name[0]) if (name := file_name(wheel)) else None
    if promise and wheel.archive.size > promise.largest_bytes:
        got = f"{wheel.archive.size} bytes, the budget is {promise.largest_bytes}"
        yield Finding(id="size-over", wheel=wheel.name, got=got)
    folders: set[str] = set()
    files = set(wheel.files)
    for file in wheel.files:
        path = installed_path(file)
        parts = path.split("/")
        if matches(path, audit.strays) and not _is_content(file, files):
            yield Finding(id="stray-file", wheel=wheel.name, member=file, got=parts[-1])
        elif len(parts) > 1 and parts[0] in audit.stray_folders and parts[0] not in folders:
            folders.add(parts[0])
            yield Finding(id="stray-folder", wheel=wheel.name, member=file, got=parts[0])
        elif len(parts) == 1 and path.endswith(".pth") and not matches(path, audit.startup):
            yield Finding(id="startup-code", wheel=wheel.name, member=file, got=path)
        scheme = re.match(r"[^/]+\.data/([^/]+)", file)
        if scheme and scheme[1] not in SCHEMES:
            yield Finding(id="data-scheme", wheel=wheel.name, member=file, got=scheme[1])
    yield from _modes(wheel, promise)
    yield from _interpreters(wheel)
    if promise and promise.content:
        yield from _exact(wheel, promise)


def _is_content(file: str, files: set[str]) -> bool:
    """What patch and merge leave lies beside the file that it was made of; what stands alone is
    somebody's own, as package.json.orig is JupyterLab's."""
    return file.endswith(".orig") and file.removesuffix(".orig") not in files


def _interpreters(wheel: Wheel) -> Iterator[Finding]:
    """Of scripts: installers put the environment's Python where a line begins with `#!python`."""
    for member, head in wheel.heads.items():
        if not SCRIPT.match(member) or not head.startswith(b"#!"):
            continue
        words = head[2:].partition(b"\n")[0].split()
        path = words[0].decode("utf-8", "backslashreplace") if words else ""
        if not SYSTEM.match(path) or (path == "python" and not head.startswith(b"#!python")):
            yield Finding(
                id="script-interpreter", wheel=wheel.name, member=member, got=path or "none"
            )


def _modes(wheel: Wheel, promise: Promise | None) -> Iterator[Finding]:
    """Programs are those that policy names, ELF files that ask for a loader by another name than
    a library's, and scripts: uv sets the mode of those, and pip keeps the wheel's."""
    name = file_name(wheel)
    if name and all(tag.platform.startswith("win") for tag in name[3]):
        return
    for member in wheel.archive.members:
        binary = wheel.binaries.get(member.name)
        facts = binary.elf if binary else None
        is_program = (
            facts is not None
            and bool(facts.interpreter and facts.machine and not facts.soname)
            and not re.search(r"\.so(\.|$)", member.name)
        )
        named = promise is not None and matches(member.name, promise.programs)
        script = SCRIPT.match(member.name) and wheel.heads.get(member.name, b"")[:2] == b"#!"
        if (is_program or named or script) and not member.mode & EXECUTE:
            got = f"mode {member.mode & 0o7777:04o}"
            yield Finding(id="mode-lost", wheel=wheel.name, member=member.name, got=got)


def _exact(wheel: Wheel, promise: Promise) -> Iterator[Finding]:
    files = [name for name in wheel.files if not re.match(r"[^/]+\.dist-info/", name)]
    for name in files:
        if not matches(name, promise.content):
            yield Finding(id="content-unlisted", wheel=wheel.name, member=name, got=name)
    for pattern in promise.content:
        if not any(matches(name, (pattern,)) for name in files):
            yield Finding(id="content-missing", wheel=wheel.name, got=pattern)
