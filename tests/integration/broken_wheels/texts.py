"""Defects of names, WHEEL, METADATA, entry points, RECORD and of what is shipped."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from broken_wheels.compiler import library
from broken_wheels.defect import Defect, changed, text
from broken_wheels.good import FOLDER, Wheel, compiled, platform, row
from qualify.audit.policy import Audit, Promise

MODULE = "small/__init__.py"


def named(name: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: setattr(wheel, "name", name))


def dropped(name: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.entries.pop(f"{FOLDER}/{name}"))


def added(name: str, data: bytes = b"a file") -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.entries.update({name: data}))


def tagged(tag: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: platform(wheel, tag))


def compiled_for(tag: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: platform(wheel, tag), lambda: compiled(library()))


def recorded(change: Callable[[list[str]], list[str]]) -> Callable[[], Wheel]:
    return changed(lambda wheel: setattr(wheel, "record", change))


def module_row(new: Callable[[str, bytes], str]) -> Callable[[], Wheel]:
    """Another row in RECORD for the module."""

    def change(wheel: Wheel) -> None:
        data = wheel.entries[MODULE]
        old = row(MODULE, data)
        wheel.record = lambda rows: [new(MODULE, data) if each == old else each for each in rows]

    return changed(change)


def promising(
    exports: dict[str, list[str]] | None = None, **promise: object
) -> Callable[[Audit], Audit]:
    whole = {"name": "small", "largest_bytes": 10_000, **promise}
    listed = {"small": {member: tuple(names) for member, names in (exports or {}).items()}}
    wheels = (msgspec.convert(whole, Promise),)
    return lambda audit: msgspec.structs.replace(audit, wheels=wheels, exports=listed)


def built(wheel: Wheel) -> None:
    wheel.name = "small-1.0-7-py3-none-any.whl"


def built_and_said(wheel: Wheel) -> None:
    built(wheel)
    wheel.swap("WHEEL", "Tag: ", "Build: 7\nTag: ")


def scripted(mode: int, interpreter: str = "python") -> Callable[[], Wheel]:
    def change(wheel: Wheel) -> None:
        script = f"#!{interpreter}\nprint('small')\n"
        wheel.entries["small-1.0.data/scripts/tool"] = script.encode()
        wheel.modes["small-1.0.data/scripts/tool"] = mode

    return changed(change)


def both(*names: str) -> Callable[[], Wheel]:
    return changed(lambda wheel: wheel.entries.update(dict.fromkeys(names, b"a file")))


ALL = ("small/*",)
LONG = "1" * 5000
"""More digits than Python converts to a number."""
NO_LICENCE = "License-File: LICENSE\n"

NAMES = [
    Defect("file-name", named("small.whl")),
    Defect("file-name", named("small-1.0-py3-none-any.zip"), case="suffix"),
    Defect("dist-info-missing", changed(lambda wheel: wheel.rename("small-1.0.egg-info"))),
    Defect("dist-info-several", added("other-2.0.dist-info/METADATA")),
    Defect("dist-info-name", changed(lambda wheel: wheel.rename("smaller-1.0.dist-info"))),
    Defect(
        "dist-info-name",
        changed(lambda wheel: wheel.rename("small-1.1.dist-info")),
        changed(lambda wheel: wheel.rename("Small-1.0.0.dist-info")),
        case="version",
    ),
    Defect(
        "text-encoding",
        changed(lambda wheel: wheel.entries.update({f"{FOLDER}/METADATA": b"Name: \xff"})),
        text("METADATA", "A description.", "A description: \u00e9."),
    ),
]
WHEEL = [
    Defect("wheel-missing", dropped("WHEEL")),
    Defect("wheel-field", text("WHEEL", "Generator: by hand", "Generator by hand")),
    Defect("wheel-version", text("WHEEL", "Wheel-Version: 1.0\n", "")),
    Defect("wheel-version", text("WHEEL", "-Version: 1.0", "-Version: 2.0"), case="newer"),
    Defect("wheel-purelib", text("WHEEL", "Purelib: true", "Purelib: yes")),
    Defect("wheel-purelib", text("WHEEL", "Root-Is-Purelib: true\n", ""), case="missing"),
    Defect(
        "tag-names-disagree", text("WHEEL", "py3-none-any", "py2-none-any"), tagged("py3-none-any")
    ),
    Defect(
        "tag-names-disagree",
        changed(lambda wheel: setattr(wheel, "name", "small-1.0-py2.py3-none-any.whl")),
        tagged("py2.py3-none-any"),
        case="fewer",
    ),
    Defect(
        "tag-names-disagree",
        text("WHEEL", "py3-none-any", "py3 -none-any"),
        tagged("py3-none-any"),
        case="malformed",
    ),
    Defect(
        "tag-linux",
        compiled_for("cp310-cp310-linux_x86_64"),
        compiled_for("cp310-cp310-manylinux_2_28_x86_64"),
    ),
    Defect("wheel-build", changed(built), changed(built_and_said)),
]
METADATA = [
    Defect("metadata-missing", dropped("METADATA")),
    Defect("metadata-field", text("METADATA", "License-Expression: ", "License Expression: ")),
    Defect("metadata-format", text("METADATA", "Version: 2.4", "Version: 9.9")),
    Defect(
        "metadata-draft",
        text("METADATA", "Version: 2.4", "Version: 2.0"),
        text("METADATA", "Version: 2.4", "Version: 2.1"),
    ),
    Defect(
        "metadata-value",
        text("METADATA", "License-Expression: MIT", "License-Expression: MIT License"),
    ),
    Defect(
        "metadata-value",
        text("METADATA", "text/plain", "text/html"),
        text("METADATA", "text/plain", "text/markdown"),
        case="description",
    ),
    Defect("metadata-repeated", text("METADATA", "Name: small\n", "Name: small\nName: small\n")),
    Defect(
        "metadata-name",
        text("METADATA", "Name: small", "Name: other"),
        text("METADATA", "Name: small", "Name: SMALL"),
    ),
    Defect("metadata-version", text("METADATA", "\nVersion: 1.0", "\nVersion: 1.1")),
    Defect(
        "metadata-version", text("METADATA", "\nVersion: 1.0", f"\nVersion: {LONG}"), case="long"
    ),
    Defect("metadata-requirement", text("METADATA", "packaging>=24", "packaging=>24")),
    Defect(
        "metadata-requirement",
        text("METADATA", "packaging>=24", f"packaging>={LONG}"),
        text("METADATA", "packaging>=24", f"packaging>={LONG[:100]}"),
        case="long",
    ),
    Defect(
        "metadata-requirement",
        text("METADATA", "packaging>=24", 'packaging; os_name ~= "posix"'),
        text("METADATA", "packaging>=24", 'packaging; os_name == "posix"'),
        case="marker",
    ),
    Defect(
        "metadata-requirement",
        text("METADATA", "packaging>=24", 'packaging; "nice" in extras'),
        text("METADATA", "packaging>=24", 'packaging; extra == "nice"'),
        case="marker-name",
    ),
    Defect(
        "metadata-requirement-url",
        text("METADATA", "packaging>=24", "packaging @ https://example.org/packaging.whl"),
    ),
    Defect("metadata-extra", text("METADATA", "Provides-Extra: nice", "Provides-Extra: nicer")),
    Defect("metadata-requires-python", text("METADATA", "-Python: >=3.10", "-Python: 3.10 on")),
    Defect(
        "metadata-requires-python",
        text("METADATA", "-Python: >=3.10", f"-Python: >=3.10,<{LONG}"),
        text("METADATA", "-Python: >=3.10", f"-Python: >=3.10,<{LONG[:100]}"),
        case="long",
    ),
    Defect(
        "metadata-python-tag",
        compiled_for("cp39-cp39-manylinux_2_28_x86_64"),
        compiled_for("cp310-cp310-manylinux_2_28_x86_64"),
    ),
    Defect(
        "metadata-python-tag",
        text("METADATA", "-Python: >=3.10", "-Python: >=3.12,<3.10"),
        text("METADATA", "-Python: >=3.10", "-Python: >=3.10,<3.12"),
        case="none",
    ),
    Defect(
        "pins-conflict",
        text("METADATA", "packaging>=24", "packaging>=24,<20"),
        text("METADATA", "packaging>=24", "packaging>=20,<24"),
        case="alone",
    ),
    Defect(
        "pins-conflict",
        text("METADATA", "packaging>=24", "packaging>=24\nRequires-Dist: packaging<24"),
        text(
            "METADATA",
            "packaging>=24",
            'packaging>=24\nRequires-Dist: packaging<24; extra == "nice"',
        ),
        case="two-lines",
    ),
    Defect(
        "pins-conflict",
        text("METADATA", "packaging>=24", "small>=2"),
        text("METADATA", "packaging>=24", "small[nice]>=1"),
        case="itself",
    ),
    Defect("licence-missing", dropped("licenses/LICENSE")),
    Defect(
        "entry-point-syntax",
        text("entry_points.txt", "small = small:main", "small: small:main"),
        text("entry_points.txt", "small = small:main", "# a comment\nsmall=small:main [nice]"),
    ),
    Defect(
        "entry-point-twice",
        text("entry_points.txt", "small = small:main", "small = small:main\nsmall = small:main"),
        text("entry_points.txt", "small = small:main", "small = small:main\nmore = small:main"),
    ),
    Defect(
        "entry-point-name",
        text("entry_points.txt", "small = small:main", "../../../small = small:main"),
    ),
    Defect("entry-point-module", text("entry_points.txt", "small:main", "small.cli:main")),
]
RECORD = [
    Defect("record-missing", recorded(lambda rows: [])),
    Defect("record-syntax", module_row(lambda name, data: f"{name},sha256=x")),
    Defect("record-syntax", module_row(lambda n, d: row(n, d)[:-2] + "many"), case="size"),
    Defect("record-twice", recorded(lambda rows: [rows[0], *rows])),
    Defect("record-escapes", recorded(lambda rows: [*rows, "../../bin/python,,"])),
    Defect("record-absent", recorded(lambda rows: [*rows, row("small/gone.py", b"")])),
    Defect("record-unlisted", recorded(lambda rows: rows[1:])),
    Defect("record-unlisted", added(f"{FOLDER}/RECORD", b""), case="empty"),
    Defect("record-unhashed", module_row(lambda name, data: f"{name},,")),
    Defect("record-algorithm", module_row(lambda name, data: row(name, data, "md5"))),
    Defect("record-hash", module_row(lambda name, data: row(name, data + b" "))),
    Defect(
        "record-hash",
        module_row(lambda name, data: row(name, data + b" ", "sha512")),
        module_row(lambda name, data: row(name, data, "sha512")),
        case="sha512",
    ),
    Defect("record-size", module_row(lambda name, data: row(name, data) + "0")),
]
CONTENT = [
    Defect("stray-file", added("small/__pycache__/a.cpython-311.pyc"), added("small/pyc")),
    Defect(
        "script-interpreter", scripted(0o100755, "/home/builder/bin/python3"), scripted(0o100755)
    ),
    Defect(
        "module-shadowed",
        both("small/a.py", "small/a/__init__.py"),
        both("small/a.py", "small/a/data.txt"),
    ),
    Defect(
        "module-shadowed",
        both("small/a.py", "small/a/more.py"),
        both("small/a.py", "small/b/more.py"),
        case="folder",
    ),
    Defect("mode-lost", scripted(0o100644), scripted(0o100755), case="script"),
    Defect(
        "stray-file",
        added("small/__init__.py.orig"),
        added("small-1.0.data/data/share/schemas/package.json.orig"),
        case="patch",
    ),
    Defect("stray-file", added("small/.DS_Store"), added("small/store"), case="desktop"),
    Defect("stray-file", added("small/CMakeFiles/a.txt"), added("small/c/a.txt"), case="cmake"),
    Defect("stray-folder", added("tests/__init__.py"), added("small/tests/__init__.py")),
    Defect(
        "stray-folder",
        added("include/small.h"),
        added("small/include/small.h"),
        case="headers",
    ),
    Defect("startup-code", added("small.pth"), added("small/small.pth")),
    Defect("data-scheme", added("small-1.0.data/lib/a"), added("small-1.0.data/data/lib/a")),
    Defect(
        "size-over",
        added("small/large.bin", random.Random(4).randbytes(20_000)),
        policy=promising(),
    ),
    Defect("content-unlisted", added("more/a.py"), policy=promising(content=ALL)),
    Defect(
        "content-missing",
        changed(lambda wheel: None),
        added("small/more.py"),
        policy=promising(content=(*ALL, "small/more.py")),
    ),
]
DEFECTS = [*NAMES, *WHEEL, *METADATA, *RECORD, *CONTENT]
