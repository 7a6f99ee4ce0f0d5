"""Rooms in each setting that images.toml declares: what is promised holds inside, and is proved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from engines import TREE

from qualify import layers, owner
from qualify.container import OWNER_LABEL, SEALED
from qualify.engine import Engine
from qualify.errors import RoomError
from qualify.images import Declaration
from qualify.owner import Owner
from qualify.room import RoomSpec, open_room

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("spec", ["docker", "podman"], indirect=True, scope="session"),
]


@pytest.fixture(scope="session")
def bare(spec: RoomSpec, declared: Declaration) -> RoomSpec:
    return msgspec.structs.replace(spec, packages=declared.room[0].packages)


def of(bare: RoomSpec, declared: Declaration, name: str) -> RoomSpec:
    (setting,) = (each for each in declared.setting if each.name == name)
    return msgspec.structs.replace(bare, setting=setting)


def sealed(engine: Engine, whose: Owner) -> list[str]:
    """The images of one process's read-only rooms: a test beside this one has its own."""
    label = {"label": f"{OWNER_LABEL}={whose.text()}"}
    with engine.open_client() as client:
        found = client.api.images(name=SEALED, filters=label)
    return [tag for image in found for tag in image["RepoTags"] or ()]


ASK = """
import json, os, pwd, socket, tempfile
name = None
try:
    name = pwd.getpwuid(os.getuid()).pw_name
except KeyError:
    pass
tempfile.TemporaryFile()
open("mine", "w").close()
print(json.dumps({"uid": os.getuid(), "name": name, "cwd": os.getcwd(),
                  "links": sorted(n for _, n in socket.if_nameindex()),
                  "user": os.environ.get("USER")}))
"""


@pytest.mark.parametrize(
    ("name", "uid", "called"),
    [("root", 0, "root"), ("nameless", 4321, None), ("read-only", 1000, "room")],
)
def test_commands_run_as_the_settings_user_and_can_work(
    bare: RoomSpec, declared: Declaration, name: str, uid: int, called: str | None
) -> None:
    with open_room(of(bare, declared, name)) as room:
        room.seal()
        done = room.run(["python3", "-c", ASK], timeout=60)
        assert done.ok, done.stderr
        found = json.loads(done.stdout)
        assert (found["uid"], found["name"]) == (uid, called)
        assert found["cwd"] == room.work and found["links"] == ["lo"]
        assert found["user"] == ("room" if uid == 1000 else None)
        file = room.put(TREE / "pyproject.toml")
        assert room.get(file) == (TREE / "pyproject.toml").read_bytes()


def test_a_network_is_there_where_it_is_declared_only(
    bare: RoomSpec, declared: Declaration
) -> None:
    for name, expected in (("network", True), ("root", False)):
        with open_room(of(bare, declared, name)) as room:
            links = room.run(["cat", "/proc/net/dev"], timeout=60).stdout
            assert ("eth0" in links or "tap0" in links) is expected


def test_a_sealed_room_keeps_what_was_installed_and_takes_no_more(
    bare: RoomSpec, declared: Declaration
) -> None:
    with open_room(of(bare, declared, "read-only")) as room:
        written = room.run(["sh", "-c", "echo it > /opt/installed"], timeout=60, user="root")
        assert written.ok, written.stderr
        room.seal()
        assert room.run(["cat", "/opt/installed"], timeout=60).stdout == "it\n"
        for user, place in (
            *(("root", place) for place in ("/opt/more", "/usr/bin/more", "/etc/more")),
            ("room", "/home/room/more"),
        ):
            done = room.run(["touch", place], timeout=60, user=user)
            assert "Read-only file system" in done.stderr, (user, place)
        assert room.run(["touch", "/tmp/here", f"{room.work}/here"], timeout=60).ok
        assert len(sealed(bare.engine, owner.current())) == 1
    assert sealed(bare.engine, owner.current()) == []


def test_a_plain_room_is_not_sealed(bare: RoomSpec) -> None:
    with open_room(bare) as room:
        room.put(TREE / "pyproject.toml")
        room.seal()
        assert room.run(["touch", "/home/room/more"], timeout=60).ok
        assert room.run(["test", "-e", "pyproject.toml"], timeout=60).ok


KILLED = """
import sys
import msgspec
from qualify.images import Setting
from qualify.room import RoomSpec, open_room
spec = msgspec.convert(msgspec.json.decode(sys.argv[1]), RoomSpec,
                       dec_hook=lambda kind, value: kind(value))
with open_room(spec) as room:
    room.seal()
    print("sealed", flush=True)
    sys.stdin.read()
"""


def test_the_image_of_a_killed_sealed_room_is_swept(bare: RoomSpec, declared: Declaration) -> None:
    spec = of(bare, declared, "read-only")
    words = [sys.executable, "-c", KILLED, msgspec.json.encode(spec, enc_hook=str).decode()]
    with subprocess.Popen(
        words, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "sealed\n"
        killed = owner.of(child.pid)
        assert len(sealed(bare.engine, killed)) == 1
        os.kill(child.pid, signal.SIGKILL)
    with open_room(bare):
        pass
    assert sealed(bare.engine, killed) == []
    with bare.engine.open_client() as client:
        label = {"label": f"{OWNER_LABEL}={killed.text()}"}
        assert client.containers.list(all=True, filters=label) == []


IMPORTED = """
import io, sys, tarfile
from qualify import owner
from qualify.container import OWNER_LABEL
from qualify.engine import choose
with choose(sys.argv[1]).open_client() as client:
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    label = f'LABEL {OWNER_LABEL}="{owner.current().text()}"'
    client.api.import_image_from_data(empty.getvalue(), repository=sys.argv[2], changes=[label])
"""


def test_what_a_killed_run_imported_is_swept(bare: RoomSpec) -> None:
    """As layers.py imports a base system: the label is the import's own."""
    tag = f"qualify/imported:{os.getpid()}"
    words = [sys.executable, "-c", IMPORTED, bare.engine.kind.value, tag]
    subprocess.run(words, cwd=TREE, check=True, timeout=120)
    with bare.engine.open_client() as client:
        assert client.api.images(name=tag)
        with open_room(bare):
            pass
        assert not client.api.images(name=tag)


def changed(bare: RoomSpec, words: list[str], tag: str) -> RoomSpec:
    """The room of an image in which root has done something."""
    with bare.engine.open_client(layers.STEP_SECONDS) as client:
        with layers.step(client, bare.facts.image) as box:
            layers.shell(box, words)
            made = box.commit(repository="qualify/changed", tag=tag, changes=['LABEL a=""'])
        facts = msgspec.structs.replace(bare.facts, image=made.id)
    return msgspec.structs.replace(bare, facts=facts)


PLACED = """
mkdir -p /tmp/p/DEBIAN && cd /tmp
for line in 'Package: nobody-asked' 'Version: 1' 'Architecture: all' 'Maintainer: a <a@b>' \
  'Description: a'; do echo "$line" >> p/DEBIAN/control; done
dpkg-deb --build p a.deb && dpkg --install a.deb && rm -r p a.deb
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["touch", "/usr/local/lib/libleft.so"], "nothing beside its packages, got /usr/local/lib"),
        (["touch", "/srv/left"], "got /srv/left"),
        (["touch", "/usr/lib/python3/dist-packages/left.py"], "got /usr/lib/python3/dist-packages"),
        (["ln", "-s", "/var/lib/left.so", "/usr/lib/libleft.so"], "got /usr/lib/libleft.so"),
        (["touch", "/etc/ld.so.conf.d/left.conf"], "got /etc/ld.so.conf.d/left.conf"),
        (["sh", "-c", PLACED], "expected what it declares, and what that needs, got nobody-asked"),
        (["sh", "-c", "mkdir /opt/tool && touch /opt/tool/x"], "got /opt/tool/x"),
        (
            ["dpkg", "--purge", "--force-all", "ca-certificates"],
            "expected the packages that it declares",
        ),
    ],
)
def test_a_room_that_holds_more_or_less_than_declared_does_not_open(
    bare: RoomSpec, words: list[str], says: str, request: pytest.FixtureRequest
) -> None:
    tag = f"{os.getpid()}-{abs(hash(request.node.name))}"
    spec = changed(bare, words, tag)
    try:
        with pytest.raises(RoomError, match=says), open_room(spec):
            pass
    finally:
        with bare.engine.open_client() as client:
            client.api.remove_image(f"qualify/changed:{tag}", force=True)
