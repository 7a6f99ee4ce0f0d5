"""What the platform tags of a file name promise: architectures, the oldest C library, and with it
the libraries and symbol versions that every such system has (the lists of PEP 600's policies,
which auditwheel keeps)."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import msgspec
from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies
from packaging.tags import Tag

LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
Version = tuple[int, ...]
VERSIONED: tuple[str, ...] = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
)
VERSIONED += ("libutil.so.1", "libresolv.so.2", "libmvec.so.1", "libanl.so.1", "libnsl.so.1")
VERSIONED += ("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1")
"""Libraries of the host whose symbols all have versions: what is needed without one, they lack."""


MUSL_ITSELF = frozenset(
    ("libc.so", "libpthread.so", "librt.so", "libm.so", "libdl.so", "libutil.so", "libxnet.so")
)
"""What musl's loader takes itself for (load_library, ldso/dynlink.c). It does so for glibc's names
too, which end in a number; but code that was linked to glibc needs symbols that musl lacks."""
TRIPLETS = {"i686": "i386", "armv7l": "arm", "ppc64le": "powerpc64le"}
"""Where Python's suffix of extension modules names an architecture otherwise than a tag."""


@functools.cache
def glibc_symbols() -> frozenset[bytes]:
    """What the C library's files define, whatever the version: they are in each process."""
    data = Path(__file__).with_name("glibc_symbols.txt").read_bytes()
    return frozenset(line for line in data.splitlines() if not line.startswith(b"#"))


class Promise(msgspec.Struct, frozen=True):
    any: bool
    architectures: frozenset[str]
    glibc: Version | None
    """The oldest; None where no tag is of manylinux."""
    musl: bool


def promised(tags: frozenset[Tag]) -> Promise:
    glibc: list[Version] = []
    architectures: set[str] = set()
    musl = False
    for platform in {tag.platform for tag in tags}:
        if new := re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", platform):
            glibc.append((int(new[1]), int(new[2])))
            architectures.add(new[3])
        elif old := re.fullmatch(r"(manylinux1|manylinux2010|manylinux2014)_(\w+)", platform):
            glibc.append(LEGACY[old[1]])
            architectures.add(old[2])
        elif other := re.fullmatch(r"(musllinux_\d+_\d+|linux)_(\w+)", platform):
            musl = musl or other[1].startswith("musl")
            architectures.add(other[2])
    return Promise(
        any=any(tag.platform == "any" for tag in tags),
        architectures=frozenset(architectures),
        glibc=min(glibc, default=None),
        musl=musl,
    )


class System(msgspec.Struct, frozen=True):
    """What all systems of a tag have: sonames, and the newest version of each kind of symbol."""

    libraries: frozenset[str]
    newest: dict[str, Version]


def system(architecture: str, promise: Promise) -> System:
    """What a wheel may lean on; with tags of both C libraries, what both kinds of systems have."""
    if not promise.musl:
        return _glibc_system(architecture, promise.glibc)
    musl = _musl_system(architecture)
    if promise.glibc is None:
        return musl
    glibc = _glibc_system(architecture, promise.glibc)
    return System(musl.libraries & glibc.libraries, glibc.newest)


@functools.cache
def _musl_system(architecture: str) -> System:
    """musl versions no symbols; both policies that there are list the same libraries."""
    try:
        policies = WheelPolicies(
            libc=Libc.MUSL, arch=Architecture(architecture), musl_policy="musllinux_1_1"
        )
    except ValueError:
        return System(frozenset(), {})
    return System(MUSL_ITSELF.union(*(policy.whitelist for policy in policies)), {})


@functools.cache
def _glibc_system(architecture: str, glibc: Version | None) -> System:
    """For no glibc, which is a `linux` tag and promises nothing: what the newest policy has."""
    try:
        policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture(architecture))
    except ValueError:
        return System(frozenset(), {})
    fits = [p for p in policies if p.name != "linux" and (glibc is None or _glibc(p.name) <= glibc)]
    if not fits:
        return System(frozenset(), {})
    policy = max(fits, key=lambda each: _glibc(each.name))
    newest: dict[str, Version] = {}
    for kind, versions in policy.symbol_versions.items():
        numbers = [number for text in versions if (number := number_of(text))]
        newest[kind] = max(numbers, default=())
    if glibc is not None:
        newest["GLIBC"] = glibc
    return System(policy.whitelist, newest if glibc is not None else {})


def _glibc(name: str) -> Version:
    found = re.match(r"manylinux_(\d+)_(\d+)", name)
    return (int(found[1]), int(found[2])) if found else ()


def number_of(text: str) -> Version | None:
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+(\.\d+)*", text) else None


PRIVATE = "GLIBC_PRIVATE"
ABI = {"GLIBC_ABI_DT_RELR": (2, 36)}
"""glibc that knows DT_RELR, which binaries ask for by that name (glibc 2.36 NEWS)."""
OTHER_ABI = (2, 42)
"""Of the like that came later (GLIBC_ABI_GNU2_TLS, GLIBC_ABI_DT_X86_64_PLT): none before it as it
was released, whatever systems took over into older ones."""


def too_new(version: str, newest: dict[str, Version]) -> bool:
    """Whether a symbol version such as GLIBC_2.34 is past what systems have; unknown kinds are
    of libraries that the tag says nothing about."""
    if version.startswith("GLIBC_ABI_"):
        return "GLIBC" in newest and newest["GLIBC"] < ABI.get(version, OTHER_ABI)
    kind, _, text = version.partition("_")
    number = number_of(text)
    return number is not None and kind in newest and number > newest[kind]
