"""Findings of names, WHEEL, METADATA, licences and entry points: is it what it says it is?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging import metadata
from packaging.errors import ExceptionGroup
from packaging.requirements import InvalidRequirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from qualify.audit import fields, versions
from qualify.audit.fields import Fields
from qualify.audit.finding import Finding
from qualify.audit.layout import installed_path
from qualify.audit.prefixes import Paths
from qualify.audit.wheel import SCRIPTS, TEXTS, Name, Wheel, file_name, requirements

FORMATS = ("1.0", "1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6")
DRAFT = "2.0"
NEWEST_FIELDS = "2.5"
"""The last version that added a field."""
ONCE: tuple[str, ...] = ("metadata-version", "name", "version", "summary", "description", "license")
ONCE += ("requires-python", "license-expression", "description-content-type", "author", "home-page")
EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
LICENCE = re.compile(r"licen[cs]e|copying|notice|copyright|gpl", re.I)
LONGEST_TAG = 1000
"""A tag set stands for the product of its parts, so that a long one is millions."""
LARGEST_PYTHON = 40
"""Minor version, and micro, up to which the Pythons of a tag are compared with Requires-Python."""


def judge(wheel: Wheel) -> Iterator[Finding]:
    """Of an archive that cannot be listed to its end, nothing: what it lacks says nothing."""
    name = file_name(wheel)
    if name is None:
        yield Finding(id="file-name", wheel=wheel.name, got=wheel.name)
    elif local := sorted(t.platform for t in name[3] if t.platform.startswith("linux_")):
        yield Finding(id="tag-linux", wheel=wheel.name, got=", ".join(dict.fromkeys(local)))
    if wheel.archive.flaws:
        return
    found = wheel.dist_infos
    if len(found) != 1:
        id = "dist-info-several" if found else "dist-info-missing"
        yield Finding(id=id, wheel=wheel.name, got=", ".join(found) or "none")
        return
    if name is not None:
        yield from _folder(wheel, found[0], name)
    for text in TEXTS:
        member = wheel.dist_info(text)
        if not member and text != "entry_points.txt":
            id = f"{text.lower()}-missing"
            yield Finding(id=id, wheel=wheel.name, member=f"{found[0]}/{text}", got="none")
        elif member and wheel.texts.get(member, "") is None:
            yield Finding(id="text-encoding", wheel=wheel.name, member=member, got="not UTF-8")
    for judged, text in ((_wheel, "WHEEL"), (_metadata, "METADATA")):
        if (content := wheel.text(text)) is not None:
            for id, line, got in judged(wheel, fields.read(content), name):
                yield _at(wheel, text, id, line, got)
    if (content := wheel.text("entry_points.txt")) is not None:
        for id, line, got in _entry_points(wheel, content):
            yield _at(wheel, "entry_points.txt", id, line, got)


def _at(wheel: Wheel, text: str, id: str, line: int | None, got: str) -> Finding:
    return Finding(id=id, wheel=wheel.name, member=wheel.dist_info(text), line=line, got=got)


def _folder(wheel: Wheel, folder: str, name: Name) -> Iterator[Finding]:
    stem = folder.removesuffix(".dist-info")
    said, _, version = stem.rpartition("-")
    if not _same(said, version, name):
        got = f"{stem}, the file is {name[0]}-{name[1]}"
        yield Finding(id="dist-info-name", wheel=wheel.name, member=folder, got=got)


def _same(name: str, version: str, expected: Name) -> bool:
    try:
        return canonicalize_name(name) == expected[0] and versions.version(version) == expected[1]
    except InvalidVersion:
        return False


Said = Iterator[tuple[str, int | None, str]]


def _wheel(wheel: Wheel, found: Fields, name: Name | None) -> Said:
    for line, text in found.malformed:
        yield "wheel-field", line, text
    version = found.first("wheel-version")
    if version is None or not re.fullmatch(r"1\.\d+", version.value):
        got = "no Wheel-Version" if version is None else version.value
        yield "wheel-version", version.line if version else None, got
    pure = found.all("root-is-purelib")
    if len(pure) != 1 or pure[0].value.lower() not in ("true", "false"):
        got = ", ".join(field.value for field in pure) or "no Root-Is-Purelib"
        yield "wheel-purelib", pure[-1].line if pure else None, got
    if name is None:
        return
    said: set[Tag] = set()
    for field in found.all("tag"):
        said |= _tag(field.value)
    if said != name[3]:
        first = found.first("tag")
        yield "tag-names-disagree", first.line if first else None, _tags(said, set(name[3]))
    build = found.first("build")
    expected = "".join(str(part) for part in name[2])
    if (build.value if build else "") != expected:
        got = f"{build.value if build else 'none'}, the file name has {expected or 'none'}"
        yield "wheel-build", build.line if build else None, got


def _tag(text: str) -> frozenset[Tag]:
    """What is no set of tags stands as it is: no file name has it."""
    if text.count("-") == 2 and len(text) < LONGEST_TAG:
        with contextlib.suppress(ValueError):
            return parse_tag(text)
    return frozenset({Tag(text, "", "")})


def _tags(said: set[Tag], named: set[Tag]) -> str:
    only = [f"{tag} in WHEEL only" for tag in sorted(said - named, key=str)]
    only += [f"{tag} in the file name only" for tag in sorted(named - said, key=str)]
    return "; ".join(only[:6])


def _metadata(wheel: Wheel, found: Fields, name: Name | None) -> Said:
    for line, text in found.malformed:
        yield "metadata-field", line, text
    format = found.first("metadata-version")
    if format is not None and format.value == DRAFT:
        yield "metadata-draft", format.line, format.value
    elif format is None or format.value not in FORMATS:
        got = format.value if format else "no Metadata-Version"
        yield "metadata-format", format.line if format else None, got
    for once in ONCE:
        if len(several := found.all(once)) > 1:
            yield "metadata-repeated", several[1].line, once
    if name is not None:
        yield from _identity(found, name)
    yield from _requirements(found)
    yield from _requires_python(found, name)
    yield from _licences(wheel, found)
    yield from _values(wheel.text("METADATA") or "", found)


def _values(text: str, found: Fields) -> Said:
    """What packaging, and an index with it, refuses; but no field for being newer than the version
    of METADATA that it is in: back ends wrote such ones for years, and indexes took them."""
    header = re.split(r"\r?\n\r?\n", text[: fields.MOST], maxsplit=1)[0]
    raw, _ = metadata.parse_email(header)
    for told in ("requires_dist", "requires_python"):  # by kinds of their own
        raw.pop(told, None)  # type: ignore[misc]
    raw |= {"metadata_version": NEWEST_FIELDS, "name": "name", "version": "1"}
    try:
        metadata.Metadata.from_raw(raw)
    except ExceptionGroup as group:
        for error in sorted(group.exceptions, key=str):
            assert isinstance(error, metadata.InvalidMetadata)
            field = found.first(error.field)
            yield "metadata-value", field.line if field else None, str(error)


def _identity(found: Fields, name: Name) -> Said:
    said = found.first("name")
    if said is None or canonicalize_name(said.value) != name[0]:
        got = f"{said.value if said else 'no Name'}, the file is {name[0]}"
        yield "metadata-name", said.line if said else None, got
    version = found.first("version")
    if version is None or not _same(name[0], version.value, name):
        got = f"{version.value if version else 'no Version'}, the file is {name[1]}"
        yield "metadata-version", version.line if version else None, got


def _requirements(found: Fields) -> Said:
    extras = {canonicalize_name(field.value) for field in found.all("provides-extra")}
    for field in found.all("requires-dist"):
        try:
            requirement = versions.requirement(field.value)
        except InvalidRequirement as error:
            yield "metadata-requirement", field.line, f"{field.value}: {str(error).splitlines()[0]}"
            continue
        if requirement.url:
            yield "metadata-requirement-url", field.line, field.value
        for extra in EXTRA.findall(str(requirement.marker or "")):
            if canonicalize_name(extra) not in extras:
                yield "metadata-extra", field.line, field.value


def _requires_python(found: Fields, name: Name | None) -> Said:
    field = found.first("requires-python")
    if field is None:
        return
    try:
        allowed = versions.specifiers(field.value)
    except InvalidSpecifier:
        yield "metadata-requires-python", field.line, field.value
        return
    tags = sorted(name[3], key=str) if name else []
    kinds = {(tag.interpreter, tag.abi == "abi3"): tag for tag in tags}  # whatever the platform
    wrong = {kind for kind, tag in kinds.items() if not _serves(allowed, tag)}
    refused = [tag for tag in tags if (tag.interpreter, tag.abi == "abi3") in wrong]
    of_one = [tag for tag in refused if tag.abi.startswith("cp3")]
    if of_one or (tags and refused == tags):
        told = (of_one or refused)[0]
        got = f"{field.value}, the tag is {told.interpreter}-{told.abi}"
        yield "metadata-python-tag", field.line, got


def _serves(allowed: SpecifierSet, tag: Tag) -> bool:
    """Whether Requires-Python lets in some Python of the tag; True where those are not known."""
    match = re.fullmatch(r"(cp|pp|py)([23])(\d{0,2})", tag.interpreter)
    if match is None:
        return True
    first = int(match[3] or 0)
    later = not match[3] or match[1] == "py" or tag.abi == "abi3"
    last = LARGEST_PYTHON if later else first
    return any(
        allowed.contains(Version(f"{match[2]}.{minor}.{micro}"), prereleases=True)
        for minor in range(first, last + 1)
        for micro in range(LARGEST_PYTHON)
    )


def _licences(wheel: Wheel, found: Fields) -> Said:
    folder = wheel.dist_infos[0]
    inside = {name[len(folder) + 1 :] for name in wheel.files if name.startswith(f"{folder}/")}
    for field in found.all("license-file"):
        flat = PurePosixPath(field.value).name  # as it was before Metadata-Version 2.4
        places = (field.value, f"licenses/{field.value}", flat, f"license_files/{field.value}")
        if not inside & set(places):
            yield "licence-missing", field.line, field.value
    bundled = sorted(n for n in wheel.binaries if ".libs/" in n)
    texts = found.all("license-file") or any(LICENCE.search(name) for name in wheel.files)
    if bundled and not texts:
        yield "licence-none", None, f"{len(bundled)} libraries such as {bundled[0]}"


def _entry_points(wheel: Wheel, text: str) -> Said:
    found = fields.read_entry_points(text)
    for line, malformed in found.malformed:
        yield "entry-point-syntax", line, malformed
    seen: set[tuple[str, str]] = set()
    modules = _Modules(wheel)
    alone = next(requirements(wheel), None) is None
    for point in found.points:
        if (point.group, point.name) in seen:
            yield "entry-point-twice", point.line, f"{point.group}: {point.name}"
        seen.add((point.group, point.name))
        if point.group in SCRIPTS and re.search(r"[/\\]|^\.*$", point.name):
            yield "entry-point-name", point.line, point.name
        if not _has(modules, point.module.replace(".", "/"), point.group in SCRIPTS, alone):
            yield "entry-point-module", point.line, f"{point.name} = {point.module}"


def _has(modules: _Modules, path: str, is_program: bool, alone: bool) -> bool:
    """Whether a module is there, or may be: where nothing of its package is, a requirement may
    bring it; and what is no program may name an attribute as if it were a module."""
    if path in modules or (not is_program and path.rpartition("/")[0] in modules):
        return True
    return not alone and path.partition("/")[0] not in modules


class _Modules:
    """What can be imported from a wheel, by paths without suffix; folders are modules too."""

    def __init__(self, wheel: Wheel) -> None:
        paths = [installed_path(name) for name in wheel.files]
        self._stems = {_stem(path) for path in paths}
        self._paths = Paths(paths)

    def __contains__(self, path: str) -> bool:
        return path in self._stems or self._paths.first_in(path) is not None


def _stem(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.partition('.')[0]}"
