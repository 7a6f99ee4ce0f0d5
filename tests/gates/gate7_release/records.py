"""What RECORD of an installed distribution says, and whether the files there agree."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import NamedTuple

BLOCK = 1 << 20


class Row(NamedTuple):
    name: str
    """As RECORD has it: relative to the site folder, with slashes."""
    path: Path
    digest: str
    """ALGORITHM=BASE64, or nothing."""
    size: str


def rows(distribution: Distribution) -> list[Row]:
    lines = (distribution.read_text("RECORD") or "").splitlines()
    return [
        Row(name, Path(str(distribution.locate_file(name))), digest, size)
        for name, digest, size in filter(None, csv.reader(lines))
    ]


def wrong(distribution: Distribution) -> list[str]:
    """How the files that RECORD lists differ from what it says, in words.

    Without a digest a row says nothing of its file, which is right for RECORD itself and for
    compiled Python, which installers make.
    """
    listed = rows(distribution)
    if not listed:
        return [f"{distribution.metadata['Name']} has no RECORD"]
    return [f"{row.name} {fault}" for row in listed if (fault := _fault(row))]


def _fault(row: Row) -> str:
    if not row.path.is_file():
        return "is in RECORD and not there"
    if not row.digest:
        made = row.path.suffix == ".pyc" or row.path.name == "RECORD"
        return "" if made else "has no digest in RECORD"
    same = row.digest == digest(row.path, row.digest.partition("=")[0])
    return "" if same and row.size == str(row.path.stat().st_size) else "is not what RECORD says"


def unlisted(distribution: Distribution) -> Iterator[str]:
    """Files in its folders that RECORD does not list, compiled Python aside, in words."""
    listed = {row.path.resolve() for row in rows(distribution)}
    folders = {name.split("/")[0] for name, *_ in rows(distribution) if not name.startswith("..")}
    for folder in sorted(folders):
        for found in Path(str(distribution.locate_file(folder))).rglob("*"):
            shipped = found.is_file() and "__pycache__" not in found.parts
            if shipped and found.resolve() not in listed:
                yield f"{found} is not in RECORD"


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a file as RECORD writes it; a library of torch's has gigabytes."""
    made = hashlib.new(algorithm)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            made.update(block)
    return _written(algorithm, made.digest())


def digest_of(data: bytes) -> str:
    """The sha256 of bytes, as RECORD writes it."""
    return _written("sha256", hashlib.sha256(data).digest())


def _written(algorithm: str, value: bytes) -> str:
    return f"{algorithm}={base64.urlsafe_b64encode(value).rstrip(b'=').decode()}"
