"""What the tool writes has the form of docs/firmware.md; the built-in image is its work."""

from __future__ import annotations

import hashlib
import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from qualify.process import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIM = Path(__file__).parents[3] / "driver_shim"
TOOL = SHIM / "tools" / "firmware_image.py"
MACHINE = tomllib.loads((SHIM / "spec" / "machine.toml").read_text())


@pytest.fixture(scope="session")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("firmware_image", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(*words: str) -> tuple[int, str]:
    done = run([sys.executable, str(TOOL), *words])
    return done.status, done.stderr


def test_built_in_image_is_made_from_its_source(tmp_path: Path) -> None:
    out = tmp_path / "image"
    words = ("--version", "1.0.0", "--rollback-index", "1", "--interface", "1.0")
    assert make(*words, str(out)) == (0, "")
    assert out.read_bytes() == (SHIM / "spec" / MACHINE["firmware"]["built_in"]).read_bytes()


def test_fields_are_where_the_page_says(tmp_path: Path) -> None:
    payload, out = tmp_path / "payload", tmp_path / "image"
    payload.write_bytes(bytes(range(256)))
    words = ("--version", "12.3.45", "--rollback-index", "7", "--interface", "1.23")
    assert make(*words, "--payload", str(payload), str(out)) == (0, "")
    image = out.read_bytes()
    assert image[:8] == b"EMUFWv1\0" and len(image) == 160 + 256
    assert struct.unpack_from("<4I", image, 8) == (1, 1023, 7, 256)
    assert image[24:64] == b"12.3.45" + bytes(33)
    assert image[64:96] == hashlib.sha256(payload.read_bytes()).digest()
    assert image[160:] == payload.read_bytes()
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(MACHINE["firmware"]["public_key"]))
    key.verify(image[96:160], image[:96])
    with pytest.raises(InvalidSignature):
        key.verify(image[96:160], image[:95] + b"\xff")


@pytest.mark.parametrize("version", ["1.0", "1.0.0-rc1", "1.2." + "3" * 28, ""])
def test_a_version_that_is_none_is_refused(tool: ModuleType, version: str) -> None:
    key = tool.read_key(tool.TEST_KEY)
    with pytest.raises(ValueError, match=r"expected N\.N\.N"):
        tool.make_image(key, version=version, interface=1000, rollback_index=0, payload=b"x")


@pytest.mark.parametrize(
    "words",
    [
        ("--interface", "one", "--rollback-index", "1"),
        ("--interface", "1.0", "--rollback-index", "-1"),
    ],
)
def test_numbers_that_are_none_write_no_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    out = tmp_path / "image"
    status, said = make("--version", "1.0.0", *words, str(out))
    assert status in (1, 2) and "firmware_image.py: " in said
    assert not out.exists()
