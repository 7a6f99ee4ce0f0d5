"""Make a firmware image of the emulated accelerator (docs/firmware.md says what is in one).

    firmware_image.py --version 1.1.0 --rollback-index 1 --interface 1.2 OUT
                      [--payload FILE] [--key FILE]

Without --payload the payload is one line that names the version. Without --key the image is signed
with spec/firmware_test_key.toml, which is public. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import struct
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SPEC = Path(__file__).resolve().parents[1] / "spec"
TEST_KEY = SPEC / "firmware_test_key.toml"
MAGIC, FORMAT = b"EMUFWv1\0", 1
SIGNED = struct.Struct(
    "<8s4I32s8x32s"
)  # the header but for the signature, which is over these bytes


def read_key(path: Path) -> Ed25519PrivateKey:
    """Raises KeyError or ValueError when the file holds no key."""
    seed = bytes.fromhex(tomllib.loads(path.read_text(encoding="utf-8"))["private_key"])
    return Ed25519PrivateKey.from_private_bytes(seed)


def make_image(
    key: Ed25519PrivateKey, *, version: str, interface: int, rollback_index: int, payload: bytes
) -> bytes:
    """`interface` is major * 1000 + minor of the oldest driver interface that it works with."""
    name = version.encode("ascii")
    if not re.fullmatch(rb"\d+\.\d+\.\d+", name) or len(name) > 31:
        raise ValueError(f"version: expected N.N.N of at most 31 characters, got {version!r}")
    digest = hashlib.sha256(payload).digest()
    signed = SIGNED.pack(MAGIC, FORMAT, interface, rollback_index, len(payload), name, digest)
    return signed + key.sign(signed) + payload


def _interface(text: str) -> int:
    match = re.fullmatch(r"(\d+)\.(\d{1,3})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected MAJOR.MINOR, got {text!r}")
    return int(match[1]) * 1000 + int(match[2])


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a firmware image.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--rollback-index", type=int, required=True)
    parser.add_argument("--interface", type=_interface, required=True, metavar="MAJOR.MINOR")
    parser.add_argument("--payload", type=Path)
    parser.add_argument("--key", type=Path, default=TEST_KEY)
    given = parser.parse_args()
    line = f"Firmware {given.version} of the emulated accelerator\n"
    payload = given.payload.read_bytes() if given.payload else line.encode()
    try:
        image = make_image(
            read_key(given.key),
            version=given.version,
            interface=given.interface,
            rollback_index=given.rollback_index,
            payload=payload,
        )
    except (KeyError, ValueError, struct.error) as error:
        print(f"firmware_image.py: {error}", file=sys.stderr)
        return 1
    given.out.write_bytes(image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
