"""Facts of an ELF file, from its program headers and dynamic section: what a loader reads.

Section headers are not read, because a loader does not and they can be stripped. Of either byte
order and word size. Anything that points outside the file raises `Damaged`, and nothing else is
raised: counts are bounded by what fits into the file and by `MOST_SYMBOLS`.
"""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Iterator
from operator import itemgetter

import msgspec

MAGIC = b"\x7fELF"
MOST_SYMBOLS = 1 << 22
MOST_HEADERS = 1 << 10
"""Program headers; the kernel takes 64 KiB of them."""
MOST_NOTE_BYTES = 1 << 16
"""That are read of a segment with notes."""
MACHINES = {3: "i686", 21: "ppc64", 22: "s390x", 40: "armv7l", 62: "x86_64", 183: "aarch64"}
MACHINES |= {243: "riscv64", 258: "loongarch64"}
"""Those of hosts. Code for another, an accelerator or a virtual machine, is data to a loader."""
RELOCATABLE, PROGRAM, SHARED = 1, 2, 3
LOAD, DYNAMIC, INTERP, NOTE, TLS = 1, 2, 3, 4, 7
STACK, RELRO, PROPERTY = 0x6474E551, 0x6474E552, 0x6474E553
EXECUTE, WRITE = 1, 2
NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SONAME, RPATH, TEXTREL, BIND_NOW, RUNPATH, FLAGS = (
    *(1, 4, 5, 6, 10, 14, 15, 22, 24, 29, 30),
)
GNU_HASH, VERSYM, FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFB
VERDEF, VERNEED = 0x6FFFFFFC, 0x6FFFFFFE
FLAG_TEXTREL, FLAG_BIND_NOW, FLAG_STATIC_TLS, FLAG_1_NOW = 4, 8, 16, 1
X86_ISA_NEEDED = 0xC0008002
BUILD_ID = 3
GLOBAL, WEAK = 1, 2
MODULE = b"PyInit_"
OWN_NAME = 1
"""Of a version definition that is the library's name and no version (VER_FLG_BASE)."""
FULL_CHAIN = 1 << 16

Bytes = bytes | mmap.mmap


class Damaged(Exception):
    def __init__(self, offset: int, got: str) -> None:
        super().__init__(got)
        self.offset = offset
        self.got = got


class Segment(msgspec.Struct, frozen=True, gc=False):
    kind: int
    flags: int
    offset: int
    address: int
    size: int
    memory: int
    """Bytes in memory, of which `size` are in the file."""
    header: int
    """Offset of the program header itself."""


class Needed(msgspec.Struct, frozen=True, order=True):
    """A version that the file needs of a library."""

    library: str
    version: str


class Undefined(msgspec.Struct, frozen=True, gc=False):
    name: str
    version: str
    """Empty for a symbol without one."""
    weak: bool
    index: int
    """In the table of symbols."""


class Elf(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    """Of a host; empty for any other."""
    kind: int
    segments: tuple[Segment, ...]
    interpreter: str
    needed: tuple[str, ...]
    soname: str
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    text_relocations: bool
    isa_needed: int
    """x86: bits of the levels baseline, v2, v3, v4; 0 where none is stated."""
    bind_now: bool
    build_id: str
    """Hexadecimal; empty where there is none."""
    versions: tuple[Needed, ...]
    defines: frozenset[str]
    """Versions that it defines."""
    undefined: tuple[Undefined, ...]
    defined: frozenset[bytes]
    weak: frozenset[bytes]
    """Of those defined, the ones that several libraries may define alike, as C++ does."""
    modules: tuple[int, ...]
    """Addresses of the functions that Python calls when it imports the file (PyInit_*)."""
    versioned: frozenset[bytes]
    """`name@version` of those defined, where the file defines versions."""
    dynamic: int
    """Offset of the dynamic section, 0 for none."""
    entries: tuple[tuple[int, int], ...]
    """Tags and values of the dynamic section."""

    def of(self, kind: int) -> list[Segment]:
        return [segment for segment in self.segments if segment.kind == kind]

    def value(self, tag: int) -> int | None:
        return next((value for kind, value in self.entries if kind == tag), None)

    def place(self, address: int) -> int:
        """Where in the file an address is."""
        return _place(self.of(LOAD), address)


def _place(loads: list[Segment], address: int) -> int:
    for load in loads:
        if load.address <= address < load.address + load.size:
            return address - load.address + load.offset
    raise Damaged(0, f"address {address:#x}, which lies in no segment of the file")


class Reader:
    """The bytes of one file, in its own order and word size."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        if len(data) < 52 or data[:4] != MAGIC or data[4] not in (1, 2) or data[5] not in (1, 2):
            raise Damaged(0, "an ELF header that is cut short or of no known class")
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        if offset + struct.calcsize(self.order + form) > len(self.data):
            raise Damaged(offset, "it points past the end of the file")
        return struct.unpack_from(self.order + form, self.data, offset)

    def require(self, offset: int, length: int) -> None:
        if offset + length > len(self.data):
            raise Damaged(offset, f"{length} bytes that end past the end of the file")

    def slice(self, offset: int, length: int) -> bytes:
        self.require(offset, length)
        return self.data[offset : offset + length]

    def rows(self, form: str, offset: int, count: int) -> Iterator[tuple[int, ...]]:
        size = struct.calcsize(self.order + form)
        return struct.iter_unpack(self.order + form, self.slice(offset, count * size))


def read(data: Bytes) -> Elf:
    reader = Reader(data)
    kind, machine = reader.unpack("HH", 16)
    (table,) = reader.unpack("Q", 32) if reader.wide else reader.unpack("I", 28)
    entry_size, count = reader.unpack("HH", 54 if reader.wide else 42)
    segments = tuple(_segments(reader, table, entry_size, count))
    name = MACHINES.get(machine, "")
    if name == "ppc64" and reader.order == "<":
        name = "ppc64le"
    entries: list[tuple[int, int]] = []
    dynamic = 0
    for once in (DYNAMIC, INTERP, PROPERTY):  # a loader takes one of several, and not each the same
        if len(several := [segment for segment in segments if segment.kind == once]) > 1:
            raise Damaged(several[1].header, f"a second segment of type {once:#x}")
    for segment in segments:
        if kind in (PROGRAM, SHARED) and name and segment.kind in (LOAD, DYNAMIC, INTERP):
            reader.require(segment.offset, segment.size)
        if segment.kind == DYNAMIC and segment.size:
            dynamic = segment.offset
            word = 16 if reader.wide else 8
            form = "qQ" if reader.wide else "iI"
            for tag, value in reader.rows(form, dynamic, segment.size // word):
                if tag == 0:
                    break
                entries.append((tag & 0xFFFFFFFF, value))
    interpreter = "".join(
        reader.slice(s.offset, s.size).rstrip(b"\0").decode("utf-8", "backslashreplace")
        for s in segments
        if s.kind == INTERP
    )
    tables = _Tables(reader, segments, entries)
    flags, flags_1 = tables.value(FLAGS) or 0, tables.value(FLAGS_1) or 0
    needed_versions, definitions = tables.needed_versions(), tables.definitions()
    undefined, defined, weak = tables.symbols(needed_versions)
    return Elf(
        machine=name,
        kind=kind,
        segments=segments,
        interpreter=interpreter,
        needed=tables.texts(NEEDED),
        soname="".join(tables.texts(SONAME)[:1]),
        rpath=tables.paths(RPATH),
        runpath=tables.paths(RUNPATH),
        text_relocations=tables.value(TEXTREL) is not None or bool(flags & FLAG_TEXTREL),
        isa_needed=_isa(reader, segments) if name in ("x86_64", "i686") else 0,
        bind_now=tables.value(BIND_NOW) is not None
        or bool(flags & FLAG_BIND_NOW or flags_1 & FLAG_1_NOW),
        build_id=_build_id(reader, segments),
        versions=tuple(sorted(set(needed_versions.values()))),
        defines=frozenset(definitions.values()),
        undefined=undefined,
        defined=defined,
        weak=weak,
        modules=tables.addresses(MODULE),
        versioned=tables.versioned(definitions),
        dynamic=dynamic,
        entries=tuple(entries),
    )


def _segments(reader: Reader, table: int, entry_size: int, count: int) -> Iterator[Segment]:
    if count and entry_size < (56 if reader.wide else 32):
        raise Damaged(54 if reader.wide else 42, f"program headers of {entry_size} bytes")
    if count > MOST_HEADERS:
        raise Damaged(56 if reader.wide else 44, f"{count} program headers")
    for number in range(count):
        at = table + number * entry_size
        if reader.wide:
            kind, flags, offset, address, _, size, memory = reader.unpack("IIQQQQQ", at)
        else:
            kind, offset, address, _, size, memory, flags = reader.unpack("7I", at)
        yield Segment(kind, flags, offset, address, size, memory, at)


class _Tables:
    """What the dynamic section points to."""

    def __init__(
        self, reader: Reader, segments: tuple[Segment, ...], entries: list[tuple[int, int]]
    ) -> None:
        self.reader = reader
        self.loads = [s for s in segments if s.kind == LOAD]
        self.entries = entries
        strings, length = self.value(STRTAB), self.value(STRSZ)
        self.strings = b""
        if strings is not None and length:
            self.strings = reader.slice(self.place(strings), length)
        # Names may share bytes, as linkers have it where one is another's end, but not all of them.
        self.left = 4 * len(self.strings) + (1 << 20)

    def value(self, tag: int) -> int | None:
        return next((value for kind, value in self.entries if kind == tag), None)

    def place(self, address: int) -> int:
        return _place(self.loads, address)

    def text(self, at: int) -> str:
        end = self.strings.find(b"\0", at)
        if at > len(self.strings) or end < 0:
            raise Damaged(0, f"a name at {at}, outside the string table")
        self.spend(end - at)
        return self.strings[at:end].decode("utf-8", "backslashreplace")

    def spend(self, length: int) -> None:
        self.left -= length
        if self.left < 0:
            raise Damaged(0, "names that are many times as long as the string table")

    def texts(self, tag: int) -> tuple[str, ...]:
        return tuple(self.text(value) for kind, value in self.entries if kind == tag)

    def paths(self, tag: int) -> tuple[str, ...]:
        """A search path that is empty as a whole is none to a loader (glibc, decompose_rpath)."""
        texts = filter(None, self.texts(tag))
        return tuple(part for text in texts for part in text.split(":"))

    def symbols(
        self, versions: dict[int, Needed]
    ) -> tuple[tuple[Undefined, ...], frozenset[bytes], frozenset[bytes]]:
        """Those that are undefined, defined, and of the latter the weak ones."""
        undefined: list[Undefined] = []
        defined: set[bytes] = set()
        weak: set[bytes] = set()
        strings, used = self.strings, 0
        for index, ((at, info, section, _), (version,)) in enumerate(self._rows()):
            binding = info >> 4
            if not at or not binding:
                continue
            if section:  # most of a library's, so without a call
                end = strings.find(b"\0", at)
                used += end - at
                if used > self.left:
                    self.spend(used)
                name = strings[at:end]
                defined.add(name)
                if binding != GLOBAL:
                    weak.add(name)
            else:
                wanted = versions.get(version & 0x7FFF)
                of = wanted.version if wanted else ""
                undefined.append(Undefined(self.text(at), of, binding == WEAK, index))
        self.spend(used)
        return tuple(undefined), frozenset(defined), frozenset(weak)

    def addresses(self, prefix: bytes) -> tuple[int, ...]:
        """Of defined symbols whose names begin so."""
        if self.strings.find(b"\0" + prefix) < 0:
            return ()
        return tuple(
            address
            for (at, info, section, address), _ in self._rows()
            if section and info >> 4 and self.strings.startswith(prefix, at)
        )

    def versioned(self, definitions: dict[int, str]) -> frozenset[bytes]:
        if not definitions:
            return frozenset()
        return frozenset(
            f"{self.text(at)}@{of}".encode()
            for (at, info, section, _), (version,) in self._rows()
            if at and info >> 4 and section and (of := definitions.get(version & 0x7FFF))
        )

    def _rows(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Name, info, section and address, and version of each symbol."""
        table, count = self.value(SYMTAB), self._count()
        if table is None or not count:
            return iter(())
        form = "IBxHQQ" if self.reader.wide else "IIIBxH"
        columns = itemgetter(0, 1, 2, 3) if self.reader.wide else itemgetter(0, 3, 4, 1)
        rows = map(columns, self.reader.rows(form, self.place(table), count))
        numbers: Iterator[tuple[int, ...]] = itertools.repeat((0,))
        if (versym := self.value(VERSYM)) is not None:
            numbers = self.reader.rows("H", self.place(versym), count)
        return zip(rows, numbers, strict=False)

    def definitions(self) -> dict[int, str]:
        """The versions that the file defines, by their number."""
        found: dict[int, str] = {}
        if (address := self.value(VERDEF)) is None:
            return found
        at = self.place(address)
        for _ in range(FULL_CHAIN):
            _, flags, number, _, _, first, following = self.reader.unpack("HHHHIII", at)
            name, _ = self.reader.unpack("II", at + first)
            if not flags & OWN_NAME:
                found[number & 0x7FFF] = self.text(name)
            at += following
            if not following:
                return found
        raise Damaged(at, "a chain of defined versions without an end")

    def needed_versions(self) -> dict[int, Needed]:
        found: dict[int, Needed] = {}
        if (address := self.value(VERNEED)) is None:
            return found
        at, steps = self.place(address), 0
        while steps < FULL_CHAIN:
            _, count, library, first, following = self.reader.unpack("HHIII", at)
            inner = at + first
            for _ in range(count):
                _, _, other, name, step = self.reader.unpack("IHHII", inner)
                found[other & 0x7FFF] = Needed(self.text(library), self.text(name))
                inner, steps = inner + step, steps + 1
                if not step or steps > FULL_CHAIN:
                    break
            at, steps = at + following, steps + 1
            if not following:
                return found
        raise Damaged(at, "a chain of needed versions without an end")

    def _count(self) -> int:
        """Symbols of the table, which only the hash tables tell."""
        if (table := self.value(HASH)) is not None:
            return self._within(self.reader.unpack("II", self.place(table))[1])
        if (table := self.value(GNU_HASH)) is None:
            return 0
        at = self.place(table)
        buckets, first, filters, _ = self.reader.unpack("4I", at)
        start = at + 16 + filters * (8 if self.reader.wide else 4)
        last = max((row[0] for row in self.reader.rows("I", start, buckets)), default=0)
        if last < first:
            return self._within(first)
        chain = start + 4 * buckets - 4 * first
        while not self.reader.unpack("I", chain + 4 * self._within(last))[0] & 1:
            last += 1
        return last + 1

    def _within(self, count: int) -> int:
        if count > MOST_SYMBOLS:
            raise Damaged(0, f"{count} symbols")
        return count


def _isa(reader: Reader, segments: tuple[Segment, ...]) -> int:
    """Bits of GNU_PROPERTY_X86_ISA_1_NEEDED of the property note."""
    word = 8 if reader.wide else 4
    for segment in segments:
        if segment.kind != PROPERTY:
            continue
        data = reader.slice(segment.offset, min(segment.size, MOST_NOTE_BYTES))
        at = 16  # after the sizes, the type and the name "GNU"
        while at + 8 <= len(data):
            kind, length = struct.unpack_from(reader.order + "II", data, at)
            if kind == X86_ISA_NEEDED and length == 4 and at + 12 <= len(data):
                return int(struct.unpack_from(reader.order + "I", data, at + 8)[0])
            at += 8 + (length + word - 1) // word * word
    return 0


def _build_id(reader: Reader, segments: tuple[Segment, ...]) -> str:
    """Of the first note of that kind. Notes that are cut short end their segment."""
    for segment in segments:
        if segment.kind != NOTE:
            continue
        data = reader.slice(segment.offset, min(segment.size, MOST_NOTE_BYTES))
        at = 0
        while at + 12 <= len(data):
            named, length, kind = struct.unpack_from(reader.order + "III", data, at)
            begin = at + 12 + (named + 3) // 4 * 4
            if kind == BUILD_ID and data[at + 12 : at + 12 + named] == b"GNU\0":
                return data[begin : begin + length].hex()
            at = begin + (length + 3) // 4 * 4
    return ""
