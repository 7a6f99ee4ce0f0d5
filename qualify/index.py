"""The index of records: append-only, chained, and signed at its head.

`index.jsonl` has one line a record; each names the sha256 of the line before it. The head,
`index.head.json`, is a DSSE envelope, signed with an ed25519 key, over the number of lines
and the sha256 of the last one. So a line that is edited, removed, moved or cut off is
found. Whole lines after those that the head counts are what an append left that was
interrupted before it signed, or tell of an older head that was put back: no verdict is given
over them, and the next append counts them. Half a line counts for nothing and is removed.

What this can't see: an index and its head put back *together* to an earlier state. Whoever
publishes keeps the head's digest elsewhere (a verdict names it).

`append` may be called by several processes at once, and `read` meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SigningError
from securesystemslib.signer import CryptoSigner, SSlibKey

from qualify.errors import EvidenceError
from qualify.evidence import Sha256, digest, write_whole
from qualify.matrix import GateNumber

HEAD_TYPE = "application/vnd.qualify.index-head+json"
FIRST = "0" * 64  # what the first line names as the line before it
BAD_KEY = (ValueError, TypeError, UnsupportedAlgorithm, InternalError)
"""What loading a key raises; TypeError says that it is encrypted, InternalError that OpenSSL
refuses its bytes."""

LINES = "index.jsonl"
HEAD = "index.head.json"
LOCK = ".lock"
PRIVATE = "keys/index.pem"
PUBLIC = "keys/index.pub"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line. `key` is the digest of the gate's inputs, `record` that of the record's file."""

    sequence: int
    previous: Sha256
    record: Sha256
    key: Sha256
    cell: str
    room: str
    gate: GateNumber
    time: datetime.datetime


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: how many lines count, and the digest of the last."""

    count: int
    last: Sha256


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an index. Where there is a problem, no entry is to be trusted."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    key_id: str = ""
    head: str = ""
    """The sha256 of the last line that the head counts."""
    pending: tuple[Entry, ...] = ()
    """Whole lines that follow, and that the head does not count: what an append leaves that was
    interrupted before it signed, or a head that was put back."""
    tip: str = FIRST
    """The sha256 of the last line of all."""
    unfinished: int = 0
    """Bytes behind it that an interrupted append left."""


def verify(lines: bytes, head: bytes | None, public: bytes | None) -> Index:
    """The facts in an index's bytes; pure. What is wrong is a problem, not an exception."""
    if not lines and head is None:
        return Index()
    if head is None or public is None:
        return Index(problems=(f"the index has no {'head' if head is None else 'public key'}",))
    try:
        signed, key_id = _open(head, public)
    except (*BAD_KEY, KeyError, AttributeError, RecursionError, SigningError) as error:
        return Index(problems=(f"the index's head is not signed by its key: {error}",))
    whole = lines.split(b"\n")[:-1]
    if len(whole) < signed.count:
        what = f"the index is cut off: expected {signed.count} lines, got {len(whole)}"
        return Index(problems=(what,), key_id=key_id)
    entries, problem = _follow(whole)
    if problem and len(entries) < signed.count:
        return Index(problems=(problem,), key_id=key_id)
    counted = whole[: signed.count]
    head_line = digest(counted[-1]) if counted else FIRST
    if head_line != signed.last:
        what = "the index's last line is not the one that the head names"
        return Index(problems=(what,), key_id=key_id)
    good = whole[: len(entries)]
    return Index(
        entries=tuple(entries[: signed.count]),
        key_id=key_id,
        head=head_line,
        pending=tuple(entries[signed.count :]),
        tip=digest(good[-1]) if good else FIRST,
        unfinished=len(lines) - sum(len(line) + 1 for line in good),
    )


def _follow(lines: list[bytes]) -> tuple[list[Entry], str]:
    """The entries from the first line on, as far as each follows the one before, and what ends
    them."""
    entries: list[Entry] = []
    previous = FIRST
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.DecodeError as error:
            return entries, f"index line {number}: {error}"
        if entry.previous != previous or entry.sequence != number:
            return entries, f"index line {number} does not follow the line before it"
        entries.append(entry)
        previous = digest(line)
    return entries, ""


def read(folder: Path) -> Index:
    """The facts of the index in an evidence folder; a folder without one is an empty index.

    Between two appends, and not in the midst of one: a line that the head does not count yet is
    none that an interrupted append left.
    """
    with _between_appends(folder):
        return _read(folder)


def _read(folder: Path) -> Index:
    lines, head, public = (_bytes(folder / name) for name in (LINES, HEAD, PUBLIC))
    if lines is None and head is not None:
        return Index(problems=("the index has a head and no lines",))
    return verify(lines or b"", head, public)


def require(folder: Path) -> None:
    """Raise EvidenceError where `append` would: before hours of work, not after it.

    An append that was interrupted before it signed is finished.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        signer = _signer(folder)
        index = _whole(folder, signer)
        if index.pending:
            count = len(index.entries) + len(index.pending)
            _write_head(folder, signer, Head(count=count, last=index.tip))


def append(
    folder: Path, *, record: str, key: str, cell: str, room: str, gate: int, now: datetime.datetime
) -> Entry:
    """Add one entry and sign the new head.

    Raises EvidenceError when the index is damaged: nothing is added to what can't be trusted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        signer = _signer(folder)
        path = folder / LINES
        if not (folder / HEAD).exists() and not _bytes(path):
            write_whole(path, b"")
            _write_head(folder, signer, Head(count=0, last=FIRST))
        index = _whole(folder, signer)
        entry = Entry(
            sequence=len(index.entries) + len(index.pending) + 1,
            previous=index.tip,
            record=record,
            key=key,
            cell=cell,
            room=room,
            gate=gate,
            time=now,
        )
        line = msgspec.json.encode(entry)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - index.unfinished)
            file.seek(0, os.SEEK_END)
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _write_head(folder, signer, Head(count=entry.sequence, last=digest(line)))
        return entry


def _whole(folder: Path, signer: CryptoSigner) -> Index:
    """The index, if there is nothing wrong with it and `signer` may go on with it."""
    index = _read(folder)
    problem = index.problems[0] if index.problems else ""
    if index.key_id not in ("", signer.public_key.keyid):
        problem = f"it was signed with another key than {folder / PRIVATE}"
    if problem:
        raise EvidenceError(
            f"{folder / LINES}: {problem}",
            mend="Restore the evidence folder from a copy, or start a new one",
        )
    return index


def _open(head: bytes, public: bytes) -> tuple[Head, str]:
    """The signed content of a head, and the id of the key that signed it."""
    # The key's id is computed from the key, so that an id in a policy pins it.
    key = SSlibKey.from_crypto(load_pem_public_key(public))
    envelope = Envelope.from_dict(json.loads(head))
    envelope.verify([key], 1)
    if _encode(envelope) != head.strip():  # base64 and JSON have many ways to say one thing
        raise ValueError("expected the bytes that were written, got others of the same meaning")
    if envelope.payload_type != HEAD_TYPE:
        raise ValueError(f"expected a payload of type {HEAD_TYPE}, got {envelope.payload_type}")
    return msgspec.json.decode(envelope.payload, type=Head), key.keyid


def _write_head(folder: Path, signer: CryptoSigner, head: Head) -> None:
    envelope = Envelope(msgspec.json.encode(head), HEAD_TYPE, {})
    envelope.sign(signer)
    write_whole(folder / HEAD, _encode(envelope) + b"\n")


def _encode(envelope: Envelope) -> bytes:
    return json.dumps(envelope.to_dict(), indent=1).encode()


def _signer(folder: Path) -> CryptoSigner:
    """The signer of this evidence folder; its key is made on first use."""
    private, public = folder / PRIVATE, folder / PUBLIC
    if not private.exists():
        if (folder / HEAD).exists():
            raise EvidenceError(
                f"{private} is not there, and the index was signed with it",
                mend="Restore the key, or start a new evidence folder",
            )
        private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Ed25519PrivateKey.generate()
        write_whole(
            public,
            made.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        )
        write_whole(
            private,
            made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            mode=0o600,
        )
    try:
        key = load_pem_private_key(private.read_bytes(), None)
    except BAD_KEY as error:
        raise EvidenceError(f"{private} is not a private key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise EvidenceError(f"{private}", expected="an ed25519 key", got=type(key).__name__)
    return CryptoSigner(key)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _between_appends(folder: Path) -> Iterator[None]:
    """Evidence that was copied has no lock, and nobody appends to it."""
    try:
        file = (folder / LOCK).open("rb")
    except OSError:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
