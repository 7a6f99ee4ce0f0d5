"""Findings of RECORD: the files of the wheel, exactly, each with its hash."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qualify.audit.archive import Content
from qualify.audit.finding import Finding
from qualify.audit.record import Row
from qualify.audit.wheel import STRONG, Wheel

UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
"""Files of the dist-info folder that cannot have a hash in RECORD, or need no row."""


def judge(wheel: Wheel) -> Iterator[Finding]:
    found = wheel.record
    if found is None or wheel.archive.flaws:
        return
    member = wheel.dist_info("RECORD")
    for line, got in found.malformed:
        yield Finding(id="record-syntax", wheel=wheel.name, member=member, line=line, got=got)
    broken = {line for line, _ in found.malformed}
    rows: dict[str, Row] = {}
    exempt = {f"{wheel.dist_infos[0]}/{name}" for name in UNHASHED}
    contents = {m.name: wheel.contents.get(m.entry) for m in wheel.archive.members}
    for row in found.rows:
        id, got = "", row.path
        if row.path in rows:
            id, got = "record-twice", f"{row.path}, first in line {rows[row.path].line}"
        elif row.path not in contents:
            escapes = re.match(r"/|[A-Za-z]:", row.path) or ".." in row.path.split("/")
            id = "record-escapes" if escapes else "record-absent"
        elif row.path not in exempt:
            id, got = _row(wheel, row, contents[row.path])
        rows.setdefault(row.path, row)
        if id:
            yield Finding(id=id, wheel=wheel.name, member=member, line=row.line, got=got)
    if broken:
        return  # a file whose row is broken is told once
    for name in sorted(set(wheel.files) - set(rows) - exempt):
        yield Finding(id="record-unlisted", wheel=wheel.name, member=name, got="no row")


def _row(wheel: Wheel, row: Row, content: Content | None) -> tuple[str, str]:
    if content is None:
        return "", ""  # unread: the archive's finding
    if not row.algorithm:
        return "record-unhashed", row.path
    if row.algorithm != "sha256" and row.algorithm not in STRONG:
        return "record-algorithm", f"{row.path}: {row.algorithm}"
    digest = wheel.digests.get((row.path, row.algorithm), content.digest)
    if row.digest != digest:
        return "record-hash", f"{row.path}: {row.digest}, the file's is {digest}"
    if row.size is not None and row.size != content.size:
        return "record-size", f"{row.path}: {row.size}, the file has {content.size}"
    return "", ""
