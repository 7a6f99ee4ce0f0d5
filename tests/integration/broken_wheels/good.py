"""A small wheel that nothing is wrong with, as data that a defect changes before it is written."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "small-1.0.dist-info"
METADATA = """\
Metadata-Version: 2.4
Name: small
Version: 1.0
Requires-Python: >=3.10
Requires-Dist: packaging>=24
Requires-Dist: rich>=13; extra == "nice"
Provides-Extra: nice
License-Expression: MIT
License-File: LICENSE
Description-Content-Type: text/plain

A description.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
MODULE = "def main() -> None:\n    print('small')\n"
DAY = (2026, 1, 1, 0, 0, 0)


@dataclasses.dataclass
class Wheel:
    """`entries` are written in their order; RECORD is made from them unless it is given.

    `then` changes the bytes of the finished archive.
    """

    name: str = "small-1.0-py3-none-any.whl"
    folder: str = FOLDER
    entries: dict[str, bytes] = dataclasses.field(default_factory=dict)
    modes: dict[str, int] = dataclasses.field(default_factory=dict)
    again: list[tuple[str, bytes]] = dataclasses.field(default_factory=list)
    record: Callable[[list[str]], list[str]] = lambda rows: rows
    methods: dict[str, int] = dataclasses.field(default_factory=dict)
    then: Callable[[bytes], bytes] = lambda data: data

    def text(self, name: str) -> str:
        return self.entries[f"{self.folder}/{name}"].decode()

    def set(self, name: str, text: str) -> None:
        self.entries[f"{self.folder}/{name}"] = text.encode()

    def swap(self, name: str, old: str, new: str) -> None:
        text = self.text(name)
        assert text.count(old) == 1, (name, old)
        self.set(name, text.replace(old, new))

    def rename(self, folder: str) -> None:
        """Another dist-info folder."""
        moved = {name.replace(self.folder, folder): data for name, data in self.entries.items()}
        self.entries, self.folder = moved, folder

    def write(self, place: Path) -> Path:
        record = f"{self.folder}/RECORD"
        rows = [row(name, data) for name, data in self.entries.items() if name[-1] != "/"]
        lines = self.record([*rows, f"{record},,"])
        path = place / self.name
        members = [*self.entries.items(), *self.again]
        if record not in self.entries and lines:
            members.append((record, "".join(f"{line}\n" for line in lines).encode()))
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members:
                info = zipfile.ZipInfo(name, DAY)
                info.external_attr = self.modes.get(name, 0o100644) << 16
                info.create_system = 3
                method = self.methods.get(name, zipfile.ZIP_DEFLATED)
                archive.writestr(info, data, compress_type=method)
        path.write_bytes(self.then(path.read_bytes()))
        return path


def row(name: str, data: bytes, algorithm: str = "sha256") -> str:
    digest = hashlib.new(algorithm, data).digest()
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    quoted = f'"{name}"' if "," in name else name
    return f"{quoted},{algorithm}={text},{len(data)}"


def pure() -> Wheel:
    wheel = Wheel()
    wheel.entries = {"small/__init__.py": MODULE.encode(), "small/data.txt": b"data " * 200}
    wheel.set("licenses/LICENSE", "MIT License\n")
    wheel.set("METADATA", METADATA)
    wheel.set("WHEEL", WHEEL)
    wheel.set("entry_points.txt", "[console_scripts]\nsmall = small:main\n")
    return wheel


def compiled(library: bytes, place: str = "small/_native.so") -> Wheel:
    """One for x86-64, with `library` in it."""
    wheel = pure()
    platform(wheel, "py3-none-manylinux_2_28_x86_64")
    wheel.swap("WHEEL", "Purelib: true", "Purelib: false")
    wheel.entries[place] = library
    wheel.modes[place] = 0o100755
    return wheel


def platform(wheel: Wheel, tag: str) -> None:
    (old,) = [line for line in wheel.text("WHEEL").splitlines() if line.startswith("Tag: ")]
    wheel.swap("WHEEL", old, f"Tag: {tag}")
    wheel.name = f"small-1.0-{tag}.whl"


def renamed(wheel: Wheel, name: str, version: str = "1.0") -> Wheel:
    """The same as another distribution, with a package and a program of that name."""

    def swapped(text: str) -> str:
        text = text.replace(FOLDER, f"{name}-{version}.dist-info")
        return text.replace("small-1.0.data", f"{name}-{version}.data")

    new = Wheel(
        folder=swapped(wheel.folder), name=wheel.name.replace("small-1.0", f"{name}-{version}")
    )
    for path, data in wheel.entries.items():
        place = swapped(path)
        new.entries[f"{name}/{place[6:]}" if place.startswith("small/") else place] = data
        new.modes[place] = wheel.modes.get(path, 0o100644)
    new.swap("METADATA", "Name: small", f"Name: {name}")
    new.swap("METADATA", "\nVersion: 1.0", f"\nVersion: {version}")
    new.set("entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
    return new


def directory(data: bytes) -> int:
    """Where the directory begins."""
    end = data.rindex(b"PK\x05\x06")
    return int(struct.unpack_from("<L", data, end + 16)[0])


def entry(data: bytes, name: str) -> int:
    """Where the directory entry of a member begins."""
    at = directory(data)
    while data[at : at + 4] == b"PK\x01\x02":
        named, extra, comment = struct.unpack_from("<3H", data, at + 28)
        if data[at + 46 : at + 46 + named].decode() == name:
            return at
        at += 46 + named + extra + comment
    raise KeyError(name)


def local(data: bytes, name: str) -> int:
    return int(struct.unpack_from("<L", data, entry(data, name) + 42)[0])


def patch(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]
