"""All facts of one wheel. What is past the limits, or cannot be read, stays unread and is named."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from qualify.audit import (
    archive,
    build_paths,
    debug_information,
    elf,
    fields,
    load_code,
    record,
    relocations,
    versions,
)
from qualify.audit.archive import Archive, Content, Flaw, Limits, Member
from qualify.audit.build_paths import Paths
from qualify.audit.debug_information import DebugInformation
from qualify.audit.load_code import Extension
from qualify.audit.policy import Audit
from qualify.audit.relocations import Relocations


class Binary(msgspec.Struct, frozen=True):
    """An ELF member: its facts, or where and how it is damaged; and paths of the build in it."""

    elf: elf.Elf | None
    relocations: Relocations
    extension: Extension | None
    damage: tuple[int, str] | None
    build_paths: Paths | None
    debug: DebugInformation | None


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """Of several members of one name, those by name are the last: what zipfile would take."""

    name: str
    archive: Archive
    contents: dict[int, Content]
    """By `Member.entry`."""
    unread: tuple[Flaw, ...]
    binaries: dict[str, Binary]
    texts: dict[str, str | None]
    """Of a dist-info folder, what could be read; None for what is not UTF-8."""
    heads: dict[str, bytes]
    """Of scripts and of what is named as an extension module: the first bytes."""
    record: record.Record | None
    digests: dict[tuple[str, str], str]
    """Member and algorithm, where RECORD names another than SHA-256."""

    files: tuple[str, ...]
    """Names of the members that are no folders, each once."""
    dist_infos: tuple[str, ...]

    def dist_info(self, name: str) -> str:
        """The member `name` of the dist-info folder, if there is one folder and it has it."""
        member = f"{self.dist_infos[0]}/{name}" if len(self.dist_infos) == 1 else ""
        return member if member in self.files else ""

    def text(self, name: str) -> str | None:
        return self.texts.get(self.dist_info(name))


Name = tuple[str, Version, tuple[int, str] | tuple[()], frozenset[Tag]]
"""Distribution, version, build number and tags."""
TEXTS = ("WHEEL", "METADATA", "RECORD", "entry_points.txt")
FOLDER_TEXTS = tuple(f".dist-info/{name}" for name in TEXTS)
SCRIPTS = ("console_scripts", "gui_scripts")
"""Groups of entry points that become programs."""
STRONG = ("sha384", "sha512")
FEW_ROWS = 10_000
"""A RECORD that has more, and more than two for each file, is not read to its end."""
HEADED = re.compile(r"\.(?:so|pyd)$|^[^/]+\.data/scripts/")
HEAD = 256
"""Bytes; a kernel reads as many of a script for its interpreter (BINPRM_BUF_SIZE)."""


def read(path: Path, audit: Audit) -> Wheel:
    """Raises OSError where the file itself can't be read, and nothing else."""
    with path.open("rb") as file:
        facts = archive.read(file, audit.limits)
        contents: dict[int, Content] = {}
        binaries: dict[str, Binary] = {}
        texts: dict[str, str | None] = {}
        heads: dict[str, bytes] = {}
        unread: list[Flaw] = []
        total = of_texts = 0
        for member in facts.members:
            if member.is_folder or not _is_plain(member):
                continue
            total += member.size
            of_texts += member.size if member.name.endswith(FOLDER_TEXTS) else 0
            refused = _refused(member, total, of_texts, audit.limits)
            if refused is None:
                refused = _take(file, member, audit, contents, binaries, texts, heads)
            if refused is not None:
                unread.append(refused)
                if total > audit.limits.unpacked_bytes:
                    break
        files = tuple(dict.fromkeys(m.name for m in facts.members if not m.is_folder))
        tops = {name.partition("/")[0] for name in files if "/" in name}
        found = Wheel(
            name=told(path.name),
            files=files,
            dist_infos=tuple(sorted(top for top in tops if top.endswith(".dist-info"))),
            archive=facts,
            contents=contents,
            unread=tuple(unread),
            binaries=binaries,
            texts=texts,
            heads=heads,
            record=None,
            digests={},
        )
        rows = max(FEW_ROWS, 2 * len(files))
        if (text := found.text("RECORD")) is not None:
            found = msgspec.structs.replace(found, record=record.read(text, rows))
        return msgspec.structs.replace(found, digests=_other_digests(file, found))


def _is_plain(member: Member) -> bool:
    """Whether there are bytes to read; what is no plain file is a finding of the archive."""
    kind = stat.S_IFMT(member.mode)
    readable = member.method in (archive.STORED, archive.DEFLATED)
    return (
        member.header is not None
        and readable
        and not member.flags & archive.ENCRYPTED
        and kind in (0, stat.S_IFREG)
    )


def _refused(member: Member, total: int, of_texts: int, limits: Limits) -> Flaw | None:
    got = ""
    if total > limits.unpacked_bytes:
        got = f"{total} bytes so far, of at most {limits.unpacked_bytes}"
    elif member.size > limits.ratio_above and member.size > limits.ratio * member.packed:
        got = f"{member.size} bytes from {member.packed}"
    elif member.name.endswith(FOLDER_TEXTS) and of_texts > limits.text_bytes:
        got = f"{of_texts} bytes of text so far"
    return Flaw("zip-bomb", member.name, member.entry, got) if got else None


def _take(
    file: BinaryIO,
    member: Member,
    audit: Audit,
    contents: dict[int, Content],
    binaries: dict[str, Binary],
    texts: dict[str, str | None],
    heads: dict[str, bytes],
) -> Flaw | None:
    assert member.header is not None
    folder, _, name = member.name.partition("/")
    sink = _Sorter()
    try:
        done = archive.unpack(file, member, member.header, sink)
        if isinstance(done, Flaw):
            return done
        contents[member.entry] = done
        if HEADED.search(member.name):
            heads[member.name] = sink.head
        if sink.file is not None and done.size == member.size:
            binaries[member.name] = _binary(sink.file, audit.build_folders)
    finally:
        if sink.file is not None:
            sink.file.close()
    if folder.endswith(".dist-info") and name in TEXTS:
        kept = io.BytesIO()
        archive.unpack(file, member, member.header, kept)
        try:
            texts[member.name] = kept.getvalue().decode("utf-8")
        except UnicodeDecodeError:
            texts[member.name] = None
    return None


class _Sorter:
    """Lets bytes pass, but for those of an ELF file, which go to a file without a name."""

    def __init__(self) -> None:
        self._begun = False
        self.head = b""
        self.file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        if not self._begun and data:
            self._begun = True
            if data[:4] == elf.MAGIC:
                self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - by the caller
        if len(self.head) < HEAD:
            self.head += data[: HEAD - len(self.head)]
        if self.file is not None:
            self.file.write(data)


def _binary(file: BinaryIO, folders: tuple[str, ...]) -> Binary:
    facts, damage, moved, extension = None, None, relocations.NONE, None
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            facts = elf.read(data)
            moved = relocations.read(data, facts)
            extension = load_code.read(data, facts, moved)
        except elf.Damaged as error:
            facts, damage = None, (error.offset, error.got)
        paths, debug = build_paths.find(data, folders), debug_information.read(data, folders)
        return Binary(facts, moved, extension, damage, paths, debug)


def _other_digests(file: BinaryIO, wheel: Wheel) -> dict[tuple[str, str], str]:
    rows = wheel.record.rows if wheel.record else ()
    wanted = {row.path: row.algorithm for row in rows if row.algorithm in STRONG}
    found: dict[tuple[str, str], str] = {}
    for member in wheel.archive.members:
        algorithm = wanted.get(member.name)
        if algorithm is None or member.entry not in wheel.contents or member.header is None:
            continue
        done = archive.unpack(file, member, member.header, _Nowhere(), algorithm)
        if isinstance(done, Content):
            found[member.name, algorithm] = done.digest
    return found


class _Nowhere:
    def write(self, data: bytes) -> None: ...


def told(path: str) -> str:
    """A path as text that can be written; bytes of it that are no UTF-8 stay visible."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def file_name(wheel: Wheel) -> Name | None:
    """What the file's name says; None for one that is no wheel's."""
    try:
        return parse_wheel_filename(wheel.name)
    except (InvalidWheelFilename, InvalidVersion):
        return None


def requirements(wheel: Wheel) -> Iterator[tuple[int, Requirement]]:
    """With their lines in METADATA. One that cannot be parsed is a finding of METADATA."""
    for field in metadata(wheel).all("requires-dist"):
        with contextlib.suppress(InvalidRequirement):
            yield field.line, versions.requirement(field.value)


def metadata(wheel: Wheel) -> fields.Fields:
    """Of METADATA; empty where there is none that can be read."""
    return fields.read(wheel.text("METADATA") or "")
