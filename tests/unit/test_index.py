"""The index: what damages it is found, an interrupted append does not, and writers may meet."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import multiprocessing
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from samples import NOW, interrupted_at

from qualify import index
from qualify.errors import EvidenceError

ENCRYPTED = Ed25519PrivateKey.generate().private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a word")
)


def edited(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey, old: str, new: str) -> list[bytes]:
    """The private and the public file of a key, with the bytes `new` where `old` come first."""
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    files = []
    for der, what in ((private, b"PRIVATE"), (public, b"PUBLIC")):
        assert bytes.fromhex(old) in der
        text = base64.encodebytes(der.replace(bytes.fromhex(old), bytes.fromhex(new), 1))
        files.append(b"-----BEGIN %b KEY-----\n%b-----END %b KEY-----\n" % (what, text, what))
    return files


# Object identifiers (RFC 8410, RFC 5480) with their last number changed.
UNKNOWN_KIND = edited(Ed25519PrivateKey.generate(), "06032b6570", "06032b6501")
UNKNOWN_CURVE = edited(
    ec.generate_private_key(ec.SECP256R1()), "2a8648ce3d030107", "2a8648ce3d03017f"
)
OTHER_LENGTH = edited(Ed25519PrivateKey.generate(), "06032b6570", "06032b6571")  # that of Ed448


def add(folder: Path, mark: str = "a") -> index.Entry:
    return index.append(folder, record=mark * 64, key="b" * 64, cell="c", room="r", gate=0, now=NOW)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for mark in "abc":
        add(tmp_path, mark)
    assert index.read(tmp_path).problems == ()
    return tmp_path


def problem(folder: Path) -> str:
    found = index.read(folder)
    assert found.entries == ()
    assert len(found.problems) == 1
    return found.problems[0]


def edit(folder: Path, old: bytes, new: bytes, name: str = index.LINES) -> None:
    data = (folder / name).read_bytes()
    assert old in data
    (folder / name).write_bytes(data.replace(old, new, 1))


def test_entries_come_back(folder: Path) -> None:
    found = index.read(folder)
    assert [entry.record[0] for entry in found.entries] == ["a", "b", "c"]
    assert [entry.sequence for entry in found.entries] == [1, 2, 3]
    assert len(found.key_id) == len(found.head) == 64


def test_nothing_is_an_empty_index(tmp_path: Path) -> None:
    assert index.read(tmp_path) == index.Index()


def test_the_private_key_is_private(folder: Path) -> None:
    assert stat.S_IMODE((folder / index.PRIVATE).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "keys").stat().st_mode) == 0o700


def test_truncation_is_found(folder: Path) -> None:
    lines = (folder / index.LINES).read_bytes().splitlines(keepends=True)
    (folder / index.LINES).write_bytes(b"".join(lines[:2]))
    assert "cut off: expected 3 lines, got 2" in problem(folder)


def test_an_edited_last_line_is_found(folder: Path) -> None:
    edit(folder, b"c" * 64, b"d" * 64)
    assert "not the one that the head names" in problem(folder)


def test_an_edited_line_is_found(folder: Path) -> None:
    edit(folder, b"a" * 64, b"d" * 64)
    assert "line 2 does not follow" in problem(folder)


def test_a_line_that_is_no_entry_is_found(folder: Path) -> None:
    edit(folder, b'"sequence":1', b'"sequence":"1"')
    assert "line 1: Expected `int`" in problem(folder)


def test_reordered_lines_are_found(folder: Path) -> None:
    lines = (folder / index.LINES).read_bytes().splitlines(keepends=True)
    (folder / index.LINES).write_bytes(lines[1] + lines[0] + lines[2])
    assert "line 1 does not follow" in problem(folder)


def test_a_removed_head_is_found(folder: Path) -> None:
    (folder / index.HEAD).unlink()
    assert "no head" in problem(folder)


def test_removed_lines_are_found(folder: Path) -> None:
    (folder / index.LINES).unlink()
    assert "no lines" in problem(folder)


def test_a_forged_head_is_found(folder: Path) -> None:
    head = json.loads((folder / index.HEAD).read_bytes())
    payload = base64.b64decode(head["payload"]).replace(b'"count":3', b'"count":2')
    head["payload"] = base64.b64encode(payload).decode()
    (folder / index.HEAD).write_text(json.dumps(head))
    assert "not signed by its key" in problem(folder)


def test_a_head_of_the_same_meaning_in_other_bytes_is_found(folder: Path) -> None:
    edit(folder, b"\n ", b"\n\t", index.HEAD)
    assert "expected the bytes that were written" in problem(folder)


def test_a_head_signed_by_another_key_is_found(folder: Path, tmp_path: Path) -> None:
    add(tmp_path / "other")
    (folder / index.HEAD).write_bytes((tmp_path / "other" / index.HEAD).read_bytes())
    assert "not signed by its key" in problem(folder)


@pytest.mark.parametrize("key", [b"junk", UNKNOWN_KIND[1], UNKNOWN_CURVE[1], OTHER_LENGTH[1]])
def test_a_public_key_that_cannot_be_read_is_found(folder: Path, key: bytes) -> None:
    (folder / index.PUBLIC).write_bytes(key)
    assert "not signed by its key" in problem(folder)


def test_a_key_that_is_swapped_with_the_head_has_another_id(folder: Path, tmp_path: Path) -> None:
    """That the local key was replaced can't be seen here: the policy's list of keys tells."""
    before = index.read(folder).key_id
    add(tmp_path / "other")
    assert index.read(tmp_path / "other").key_id != before


@pytest.mark.parametrize("tail", [b'{"sequence":4,"previ', b'{"sequence":4}\n', b"\n\n"])
def test_an_interrupted_append_leaves_a_good_index(folder: Path, tail: bytes) -> None:
    with (folder / index.LINES).open("ab") as file:
        file.write(tail)
    found = index.read(folder)
    assert len(found.entries) == 3
    assert found.unfinished == len(tail)
    assert add(folder, "d").sequence == 4
    assert len(index.read(folder).entries) == 4
    assert index.read(folder).unfinished == 0


def test_an_append_that_was_interrupted_before_the_head(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index, "_write_head", interrupt)
        with pytest.raises(KeyboardInterrupt):
            add(folder, "d")
    found = index.read(folder)
    assert len(found.entries) == 3 and [entry.record[0] for entry in found.pending] == ["d"]
    assert add(folder, "e").sequence == 5
    found = index.read(folder)
    assert "".join(entry.record[0] for entry in found.entries) == "abcde" and not found.pending


def test_a_first_append_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index, "_write_head", interrupt)
        with pytest.raises(KeyboardInterrupt):
            add(tmp_path)
    assert index.read(tmp_path).problems == ()
    assert add(tmp_path).sequence == 1


def test_nothing_is_added_to_a_damaged_index(folder: Path) -> None:
    edit(folder, b"a" * 64, b"d" * 64)
    before = (folder / index.LINES).read_bytes()
    with pytest.raises(EvidenceError, match="line 2 does not follow"):
        add(folder, "d")
    assert (folder / index.LINES).read_bytes() == before


def test_a_lost_key_is_told(folder: Path) -> None:
    (folder / index.PRIVATE).unlink()
    with pytest.raises(EvidenceError, match="index was signed with it"):
        add(folder)


def _add_ten(folder: Path) -> None:
    for _ in range(10):
        add(folder)


def test_two_processes_append(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_ten, args=(tmp_path,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    found = index.read(tmp_path)
    assert found.problems == ()
    assert [entry.sequence for entry in found.entries] == list(range(1, 21))


def test_what_is_read_while_another_appends_is_whole(tmp_path: Path) -> None:
    add(tmp_path)
    writer = multiprocessing.get_context("spawn").Process(target=_add_ten, args=(tmp_path,))
    writer.start()
    read = 0
    while writer.exitcode is None:
        found = index.read(tmp_path)
        assert (found.pending, found.problems) == ((), ())
        read += 1
    assert read > 10 and len(index.read(tmp_path).entries) == 11


def test_an_index_without_a_lock_is_read(folder: Path) -> None:
    (folder / index.LOCK).unlink()
    assert len(index.read(folder).entries) == 3


def test_a_good_index_and_a_new_one_can_be_gone_on_with(folder: Path, tmp_path: Path) -> None:
    before = index.read(folder)
    index.require(folder)
    assert index.read(folder) == before
    index.require(tmp_path / "new")
    add(tmp_path / "new")
    assert index.read(tmp_path / "new").problems == ()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (index.LINES, b"", "cut off: expected 3 lines, got 0"),
        (index.HEAD, b"{}", "head is not signed"),
        (index.PRIVATE, None, "index.pem is not there"),
        (index.PRIVATE, b"junk", "index.pem is not a private key"),
        (index.PRIVATE, ENCRYPTED, "index.pem is not a private key"),
        (index.PRIVATE, UNKNOWN_KIND[0], "index.pem is not a private key: Unknown key type"),
        (index.PRIVATE, UNKNOWN_CURVE[0], "index.pem is not a private key: Curve"),
        (index.PRIVATE, OTHER_LENGTH[0], "index.pem is not a private key"),
    ],
)
def test_what_cannot_be_gone_on_with_is_told_before_and_at_an_append(
    folder: Path, name: str, data: bytes | None, message: str
) -> None:
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    for act in (index.require, add):
        with pytest.raises(EvidenceError, match=message):
            act(folder)


def test_the_key_of_another_index_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    add(other)
    (other / index.PRIVATE).replace(folder / index.PRIVATE)
    for act in (index.require, add):
        with pytest.raises(EvidenceError, match="signed with another key than"):
            act(folder)
    assert len(index.read(folder).entries) == 3


def test_an_append_that_is_interrupted_anywhere_loses_nothing(folder: Path) -> None:
    before = index.read(folder).entries
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a disk syncs much more slowly
    for number in itertools.count(1):
        with tempfile.TemporaryDirectory(dir=memory) as name:
            copy = Path(name) / "evidence"
            shutil.copytree(folder, copy)
            with contextlib.suppress(KeyboardInterrupt), interrupted_at(number):
                add(copy, "d")
                break
            assert index.read(copy).entries[:3] == before
            add(copy, "e")
            assert index.read(copy).entries[:3] == before
    assert number > 20
