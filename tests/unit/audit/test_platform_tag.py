"""What tags promise, and which symbol versions are past it."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from qualify.audit import platform_tag

NEW = "py3-none-manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("tag", "glibc", "architectures", "musl"),
    [
        ("py3-none-manylinux_2_28_x86_64", (2, 28), {"x86_64"}, False),
        ("py3-none-manylinux1_i686", (2, 5), {"i686"}, False),
        ("py3-none-manylinux2014_aarch64.manylinux_2_28_aarch64", (2, 17), {"aarch64"}, False),
        ("py3-none-musllinux_1_2_x86_64", None, {"x86_64"}, True),
        ("py3-none-linux_riscv64", None, {"riscv64"}, False),
        ("py3-none-win_amd64", None, set(), False),
    ],
)
def test_promises(
    tag: str, glibc: tuple[int, int] | None, architectures: set[str], musl: bool
) -> None:
    promise = platform_tag.promised(parse_tag(tag))
    assert (promise.glibc, promise.architectures, promise.musl) == (glibc, architectures, musl)
    assert not promise.any


def test_any() -> None:
    assert platform_tag.promised(parse_tag("py3-none-any")).any


def test_systems_of_a_tag() -> None:
    """PEP 600's policies: glibc's own libraries, and GCC 8's for manylinux_2_28."""
    found = platform_tag.system("x86_64", platform_tag.promised(parse_tag(NEW)))
    assert {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1"} <= found.libraries
    assert "libgomp.so.1" not in found.libraries
    assert found.newest["GLIBC"] == (2, 28)
    assert found.newest["GLIBCXX"] == (3, 4, 24) or found.newest["GLIBCXX"] >= (3, 4, 24)
    promise = platform_tag.promised(parse_tag(NEW))
    assert platform_tag.system("no such machine", promise).libraries == frozenset()


def test_systems_of_musl() -> None:
    """Its own library under each name, and nothing of GCC's; with both tags, what both have."""
    musl = platform_tag.promised(parse_tag("py3-none-musllinux_1_2_x86_64"))
    found = platform_tag.system("x86_64", musl).libraries
    assert {"libc.musl-x86_64.so.1", "libc.so", "libm.so"} <= found
    assert not {"libc.so.6", "libgcc_s.so.1", "libstdc++.so.6"} & found
    both = platform_tag.promised(parse_tag(f"{NEW}.musllinux_1_2_x86_64"))
    assert platform_tag.system("x86_64", both).libraries <= found


@pytest.mark.parametrize(
    ("version", "new"),
    [
        ("GLIBC_2.28", False),
        ("GLIBC_2.29", True),
        ("GLIBC_2.3.4", False),
        ("GLIBC_PRIVATE", False),
        ("GLIBC_ABI_DT_RELR", True),
        ("GLIBC_ABI_GNU2_TLS", True),
        ("LIBFOO_9.9", False),
    ],
)
def test_too_new(version: str, new: bool) -> None:
    assert platform_tag.too_new(version, {"GLIBC": (2, 28)}) is new


def test_relr_came_with_glibc_2_36() -> None:
    assert not platform_tag.too_new("GLIBC_ABI_DT_RELR", {"GLIBC": (2, 36)})


def test_names_of_the_c_library() -> None:
    names = platform_tag.glibc_symbols()
    assert {b"malloc", b"dlopen", b"cos", b"pthread_create", b"__tls_get_addr"} <= names
    assert b"ghost" not in names and not any(b" " in name for name in names)


@pytest.mark.parametrize(
    ("version", "minor", "new"),
    [
        ("GLIBC_ABI_DT_RELR", 36, False),
        ("GLIBC_ABI_DT_X86_64_PLT", 41, True),
        ("GLIBC_ABI_DT_X86_64_PLT", 42, False),
    ],
)
def test_properties_of_a_loader(version: str, minor: int, new: bool) -> None:
    assert platform_tag.too_new(version, {"GLIBC": (2, minor)}) is new
