"""The allow-list of a sandbox: what a room sees of this machine."""

from __future__ import annotations

from pathlib import Path

from qualify.sandbox import plan


def test_only_system_folders_are_there_and_none_can_be_written() -> None:
    layout = plan()
    for _, target, writable in layout.binds:
        assert target.startswith(("/usr", "/bin", "/sbin", "/lib", "/etc/", "/sys/devices/system/"))
        assert not writable
    targets = {target for _, target, _ in layout.binds}
    assert not targets & {"/", "/home", "/root", "/etc", "/var", "/opt", "/tmp", "/proc"}


def test_what_the_owner_put_on_the_machine_is_masked() -> None:
    assert {"/usr/local", "/usr/src", "/usr/share/mine"} <= set(
        plan(hidden=[Path("/usr/share/mine")]).masks
    )


def test_a_source_that_is_a_link_is_followed_here(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    layout = plan(binds=[(tmp_path / "link", "/opt/x", False)])
    assert (str(real.resolve()), "/opt/x", False) in layout.binds
