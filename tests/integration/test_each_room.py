"""Each kind of room keeps its promises, and says clearly when it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from engines import TREE
from test_settings import changed

from qualify import owner
from qualify.container import OWNER_LABEL, Apart, Container, started
from qualify.engine import RoomKind
from qualify.errors import RoomError
from qualify.pipeline import Prepared
from qualify.process import run
from qualify.room import RoomSpec, open_room
from qualify.sandbox import Sandbox, plan

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]  # images are made on the way


def test_a_command_runs_in_a_clean_environment(
    spec: RoomSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUALIFY_CANARY", "outside")
    with open_room(spec) as room:
        done = room.run(["/usr/bin/env"], timeout=30, env={"ASKED": "for"})
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert done.ok and names == {"PATH", "HOME", "LANG", "TMPDIR", "USER", "ASKED"}


def test_status_output_and_signals_come_back(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        done = room.run(["sh", "-c", "cat; echo err >&2; exit 7"], timeout=30, stdin=b"in")
        killed = room.run(["sh", "-c", "kill -SEGV $$"], timeout=30)
    assert (done.status, done.stdout, done.stderr) == (7, "in", "err\n")
    assert killed.status == -signal.SIGSEGV


def test_a_command_that_takes_too_long_is_ended(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        start = time.monotonic()
        done = room.run(["sleep", "60"], timeout=1)
        assert done.timed_out and not done.ok and time.monotonic() - start < 15
        assert room.run(["true"], timeout=30).ok, "the room goes on"


def test_files_go_in_and_come_out(spec: RoomSpec, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    folder = tmp_path / "suite"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "data").write_bytes(data)
    (folder / "__pycache__/old.pyc").touch()
    with open_room(spec) as room:
        inside = room.put(folder, "in")
        assert room.get(f"{inside}/data") == data == room.get("in/suite/data")
        assert not room.run(["test", "-e", f"{inside}/__pycache__"], timeout=30).ok
        with pytest.raises(RoomError, match="could not read none"):
            room.get("none")


def test_orphans_are_reaped(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        room.run(["sh", "-c", "(sleep 0.2 &) >&- 2>&-"], timeout=30)
        time.sleep(1)
        states = room.run(["sh", "-c", "grep -h ^State: /proc/[0-9]*/status"], timeout=30)
        assert states.ok and "Z (zombie)" not in states.stdout


def test_no_network_and_no_privilege(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        devices = room.run(["cat", "/proc/net/dev"], timeout=30).stdout.splitlines()[2:]
        assert [line.split(":")[0].strip() for line in devices] == ["lo"]
        for user in ("room", "root"):
            status = room.run(["cat", "/proc/self/status"], timeout=30, user=user).stdout
            facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
            assert int(facts["CapEff"], 16) == 0 == int(facts["CapBnd"], 16)
            assert facts["NoNewPrivs"] == "1"


def test_a_room_starts_clean_each_time(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        room.run(["touch", "/tmp/left"], timeout=30)
    with open_room(spec) as room:
        assert not room.run(["test", "-e", "/tmp/left"], timeout=30).ok


def test_the_source_tree_is_out_of_reach(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        assert not room.run(["test", "-e", str(TREE / "pyproject.toml")], timeout=30).ok
        found = room.run(["find", "/", "-xdev", "-name", "pyproject.toml"], timeout=60, user="root")
        assert "emu" not in found.stdout and str(TREE) not in found.stdout


def test_a_room_that_shows_the_tree_does_not_open(spec: RoomSpec) -> None:
    if spec.engine.kind is not RoomKind.SANDBOX:
        pytest.skip("the container's creation takes no mounts; its table is judged in unit tests")
    leaky = msgspec.structs.replace(spec, sandbox=plan(binds=[(TREE, "/mnt/elsewhere", False)]))
    with pytest.raises(
        RoomError,
        match=r"not clean: expected .* out of reach, got it, or something of it, is at /mnt/e",
    ):
        open_room(leaky).__enter__()


@pytest.mark.parametrize("part", ["", "driver_shim/include"])
def test_a_container_that_shows_the_tree_or_a_part_does_not_open(
    spec: RoomSpec, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an engine does whose configuration mounts folders into every container."""
    if not spec.engine.has_images:
        pytest.skip("a sandbox has mounts of its own")
    monkeypatch.setattr(Container, "_start_device", lambda self, device: [f"{TREE / part}:/mnt:ro"])
    wheel = Apart(driver=TREE / "pyproject.toml", sha256="")
    leaky = msgspec.structs.replace(spec, devices=(wheel,))
    with pytest.raises(RoomError, match=r"not clean: expected .* out of reach, got it, .* at /mnt"):
        open_room(leaky).__enter__()


def test_no_image_has_a_volume_of_its_own(spec: RoomSpec) -> None:
    """It would be writable in a room that is read-only, and is left over where a room is lost."""
    if not spec.engine.has_images:
        pytest.skip("no image")
    with spec.engine.open_client() as client:
        assert not client.images.get(spec.facts.image).attrs["Config"].get("Volumes")


def test_what_the_user_set_for_containers_is_in_none(
    spec: RoomSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not spec.engine.has_images:
        pytest.skip("no container")
    proxies = {"proxies": {"default": {"httpProxy": "http://me:secret@proxy:1"}}}
    (tmp_path / "config.json").write_text(json.dumps(proxies))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with spec.engine.open_client() as client, started(client, spec.facts.image) as box:
        box.reload()
        assert "secret" not in str(box.attrs)


def test_a_room_whose_environment_has_more_than_was_installed_does_not_open(
    prepared: Prepared,
) -> None:
    room = next((room for room in prepared.rooms if room.engine.has_images), None)
    if room is None:
        pytest.skip("a room without an engine has no image")
    script = "touch $(echo /opt/venv/lib/python3.*/site-packages)/sitecustomize.py"
    tag = f"environment-{os.getpid()}"
    more = changed(room, ["sh", "-c", script], tag)
    try:
        with pytest.raises(
            RoomError, match=r"nothing beside its packages, got .*sitecustomize\.py"
        ):
            open_room(more).__enter__()
    finally:
        with room.engine.open_client() as client:
            client.api.remove_image(f"qualify/changed:{tag}")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"os_version": "99"}, "99, glibc "),
        ({"os_id": "hurd"}, "hurd, "),
        ({"glibc": "1.0"}, "1.0,"),
    ],
)
def test_a_room_that_is_another_system_than_declared_does_not_open(
    spec: RoomSpec, wrong: dict[str, str], told: str
) -> None:
    facts = msgspec.structs.replace(spec.facts, **wrong)
    with (
        pytest.raises(RoomError, match=f"declared to be: expected .*{told}.* got ") as caught,
        open_room(msgspec.structs.replace(spec, facts=facts)),
    ):
        pass
    assert f"{spec.facts.os_id}, {spec.facts.os_version}" in caught.value.got
    if spec.engine.has_images:
        with spec.engine.open_client() as client:
            label = f"{OWNER_LABEL}={owner.current().text()}"
            assert not client.containers.list(all=True, filters={"label": label})


@pytest.mark.parametrize("wrong", [{"python": "3.9.0"}, {"torch": "1.0"}])
def test_a_room_with_another_installation_than_declared_does_not_open(
    prepared: Prepared, wrong: dict[str, str]
) -> None:
    spec = prepared.rooms[0]
    (told,) = (f"{'Python' if name == 'python' else name} {wrong[name]}" for name in wrong)
    facts = msgspec.structs.replace(spec.facts, **wrong)
    with (
        pytest.raises(RoomError, match="not the installation") as caught,
        open_room(msgspec.structs.replace(spec, facts=facts)),
    ):
        pass
    assert told in caught.value.expected
    assert caught.value.got == f"Python {spec.facts.python}, torch {spec.facts.torch}"


def test_a_full_disk_is_the_commands_error_and_not_the_rooms(
    spec: RoomSpec, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(b"x" * 8_000_000)
    with open_room(msgspec.structs.replace(spec, work_bytes=4_000_000)) as room:
        done = room.run(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=8"], timeout=30)
        assert not done.ok and "No space left on device" in done.stderr
        with pytest.raises(RoomError, match=r"could not copy big .*(No space left|Wrote only)"):
            room.put(tmp_path / "big")
        room.run(["rm", "-f", "big"], timeout=30)
        assert room.run(["sh", "-c", "echo ok > small && cat small"], timeout=30).stdout == "ok\n"


def test_a_killed_room_is_told(spec: RoomSpec) -> None:
    with open_room(spec) as room:
        timer = threading.Timer(1.0, kill, [spec])
        timer.start()
        with pytest.raises(RoomError, match=r"died while|is gone"):
            room.run(["sleep", "30"], timeout=60)
        timer.join()
        with pytest.raises(RoomError, match="is dead"):
            room.run(["true"], timeout=30)


def kill(spec: RoomSpec) -> None:
    """Kill the first process of the one room that this process has open."""
    if spec.engine.has_images:
        with spec.engine.open_client() as client:
            label = f"{OWNER_LABEL}={owner.current().text()}"
            for container in client.containers.list(filters={"label": label}):
                container.kill()
    else:
        for child in children(os.getpid()):
            if b"sandbox_init" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)


def children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):  # it may be gone by now
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


OPEN_AND_SLEEP = """
import sys, time, msgspec
from qualify import room
sys.path.insert(0, {folder!r})
spec = msgspec.convert(msgspec.json.decode(sys.stdin.buffer.readline()), room.RoomSpec,
                       dec_hook=lambda kind, value: kind(value))
with room.open_room(spec) as opened:
    opened.run(["touch", "/tmp/x"], timeout=30)
    print("open", flush=True)
    opened.run(["sleep", "1234"], timeout=2000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(spec: RoomSpec, number: signal.Signals) -> None:
    program = OPEN_AND_SLEEP.format(folder=str(TREE))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=TREE,
    ) as child:
        assert child.stdin and child.stdout
        child.stdin.write(msgspec.json.encode(spec, enc_hook=str) + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"open\n", child.stderr and child.stderr.read()
        time.sleep(0.5)
        label = f"{OWNER_LABEL}={owner.of(child.pid).text()}"
        inside = [pid for pid in descendants(child.pid) if pid != child.pid]
        child.send_signal(number)
        child.wait(timeout=60)
    if number is not signal.SIGINT and spec.engine.has_images:
        with open_room(spec):  # what a run that was killed left is swept by the next
            pass
    deadline = time.monotonic() + 10
    while [pid for pid in inside if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.1)
    if spec.engine.has_images:
        with spec.engine.open_client() as client:
            assert not client.containers.list(all=True, filters={"label": label})


MAKE_BASE = """
import sys, msgspec
from pathlib import Path
from qualify import engine, images, layers
from qualify.stage import Stages
image = images.load(Path("containers/images.toml")).room[0]
image = msgspec.structs.replace(image, name=sys.argv[2])
with engine.choose("docker").open_client(600) as client:
    layers.base_image(Stages(Path(sys.argv[1]), keep_free=0), client, image)
"""


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_base_system_that_is_interrupted_leaves_no_mount(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = [sys.executable, "-c", MAKE_BASE, str(tmp_path), f"never-made-{secrets.token_hex(4)}"]
    with subprocess.Popen(words, cwd=TREE, stderr=subprocess.PIPE) as child:
        # Its mounts are seen by somebody: by itself, or by us too.
        while not any(str(tmp_path) in mounts_of(pid) for pid in descendants(child.pid)):
            assert child.poll() is None, child.stderr and child.stderr.read().decode()
            time.sleep(0.1)
        inside = descendants(child.pid)
        child.send_signal(number)
        assert child.stderr
        said = child.stderr.read().decode()
        child.wait(timeout=60)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    if number is signal.SIGINT:
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert not list(tmp_path.glob(".rootfs-*"))
    for pid in inside:  # what a killed run started is ours to end
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def mounts_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/mounts").read_text()
    except OSError:
        return ""


class Stop(BaseException):
    """As the command line's own: no handler of errors catches it."""


def test_an_interrupt_while_the_engine_makes_a_container_leaves_none(spec: RoomSpec) -> None:
    """Interrupted later and later, until the container is there before the interrupt comes."""
    if not spec.engine.has_images:
        pytest.skip("no engine makes a sandbox")

    def stop(*_: object) -> None:
        raise Stop

    label = {"label": f"{OWNER_LABEL}={owner.current().text()}"}
    before = signal.signal(signal.SIGALRM, stop)
    stopped = 0
    try:
        with spec.engine.open_client() as client:
            for attempt in range(1, 200):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.02 * attempt)
                    with started(client, spec.facts.image, network_mode="none"):
                        signal.setitimer(signal.ITIMER_REAL, 0)
                        break
                except Stop:
                    stopped += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                assert client.containers.list(all=True, filters=label) == []
            else:
                pytest.fail("no attempt came to its end")
            assert client.containers.list(all=True, filters=label) == []
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stopped


def descendants(pid: int) -> list[int]:
    found = [pid]
    for child in children(pid):
        found += descendants(child)
    return found


def test_a_sandbox_that_cannot_start_says_why(tmp_path: Path) -> None:
    room = Sandbox(plan(binds=[(tmp_path / "none", "/opt/none", False)]))
    with pytest.raises(RoomError, match=r"did not start: .*No such file or directory"):
        room.start()
    assert room.died()


ONE_COMMAND = """
import sys
from qualify.container import Container
from qualify.engine import choose
room = Container(choose(sys.argv[1]), sys.argv[2], work="/home/room", work_bytes=None)
try:
    room.start()
    assert room.execute(["cat"], user="room", stdin=b"in", timeout=60).stdout == "in"
finally:
    room.close()
"""


def test_a_command_leaves_nothing_to_complain_of(spec: RoomSpec) -> None:
    """Python 3.13 says what goes wrong where an answer is closed late; others with -X dev."""
    if not spec.engine.has_images:
        pytest.skip("a sandbox has no engine that answers")
    words = [sys.executable, "-X", "dev", "-c", ONE_COMMAND]
    done = run([*words, spec.engine.kind.value, spec.facts.image], cwd=TREE, timeout=120)
    assert done.ok, done.stderr
    assert "Exception ignored" not in done.stderr and "unclosed" not in done.stderr
