"""The mount table: where a folder of the machine shows in a room."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify import mounts
from qualify.errors import RoomError

CONTAINER = """\
30 20 0:40 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
31 30 0:41 / /proc rw,nosuid - proc proc rw
32 30 254:0 /var/lib/docker/containers/1/hosts /etc/hosts rw,relatime - ext4 /dev/vda rw
"""


def test_a_clean_container_shows_nothing() -> None:
    assert list(mounts.views(CONTAINER, "254:0", "/home/me/checkout")) == []


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("33 30 254:0 /home/me/checkout /mnt rw - ext4 /dev/vda rw", "/mnt"),
        ("33 30 254:0 /home/me /mnt rw - ext4 /dev/vda rw", "/mnt/checkout"),
        ("33 30 254:0 / /host rw - ext4 /dev/vda rw", "/host/home/me/checkout"),
        (r"33 30 254:0 / /a\040b rw - ext4 /dev/vda rw", "/a b/home/me/checkout"),
    ],
)
def test_a_mount_of_the_tree_or_of_what_holds_it_is_seen(line: str, place: str) -> None:
    assert list(mounts.views(CONTAINER + line, "254:0", "/home/me/checkout")) == [place]


@pytest.mark.parametrize(
    ("root", "places"),
    [
        ("/home/me/checkout/driver_shim/include", ["/mnt"]),
        ("/home/me/checkout", []),  # a view, and told as that
        ("/home/me", []),
        ("/home/me/checkouts/a", []),
    ],
)
def test_a_mount_of_a_part_of_the_tree_is_seen(root: str, places: list[str]) -> None:
    line = f"33 30 254:0 {root} /mnt rw - ext4 /dev/vda rw"
    assert list(mounts.parts(CONTAINER + line, "254:0", "/home/me/checkout")) == places


def test_a_name_that_only_begins_alike_is_another_folder() -> None:
    line = "33 30 254:0 /home/me/check /mnt rw - ext4 /dev/vda rw"
    assert list(mounts.views(line, "254:0", "/home/me/checkout")) == []


def test_a_table_that_cannot_be_read_is_not_an_empty_one() -> None:
    with pytest.raises(RoomError, match="mount table cannot be read"):
        mounts.parse("cat: /proc/self/mountinfo: No such file or directory")


def test_the_location_of_a_folder_finds_it_again(tmp_path: Path) -> None:
    device, inner = mounts.host_location(tmp_path)
    here = Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path.resolve()) in list(mounts.views(here, device, inner))
