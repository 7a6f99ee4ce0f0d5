"""A change of this machine's packages is seen."""

from __future__ import annotations

from pathlib import Path

from qualify.host import software


def test_packages_are_those_of_dpkg(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Package: libc6\nVersion: 2.36-9\n")
    before = software(status)
    status.write_text("Package: libc6\nVersion: 2.36-10\n")
    assert before.startswith("dpkg ") and software(status) != before


def test_without_dpkg_it_is_the_c_library_and_the_system(tmp_path: Path) -> None:
    assert software(tmp_path / "none").startswith("glibc ")
