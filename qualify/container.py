"""A room in a container, over Docker's interface (podman serves the same)."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import shutil
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import docker
import msgspec
import requests
from docker.errors import APIError, DockerException, NotFound

from qualify import owner, process
from qualify.engine import Engine, RoomKind
from qualify.errors import ChangedError, EngineError, HostError, RoomError
from qualify.images import PLAIN, Setting
from qualify.process import Completed
from qualify.stream import ending, exchange

OWNER_LABEL = "qualify.room-owner"
SEALED = "qualify/sealed-room"
GRACE_SECONDS = 30
REMOVE_SECONDS = 600
LAG_SECONDS = 2
PROCESSES = 4096
SHM_BYTES = 2**30
LIMITS = [docker.types.Ulimit(name=name, soft=16384, hard=16384) for name in ("nofile", "nproc")]
"""The same in every engine; podman's own defaults may be more than this machine allows."""
FIRST_PROCESS = ["sh", "-c", "while :; do sleep 2147483647 & wait; done"]
"""Lives until the room is removed, and reaps orphans (an engine's own init may not be there)."""
NODES = "/dev/emu"
NODES_OF_RELEASES = "/dev/emu-releases"
NODE_GROUP = 2000
OPEN_BYTES = 4 * 10**9
"""Of a work folder, or of /tmp, that lies in memory because the room's user owns none."""


class Apart(msgspec.Struct, frozen=True, kw_only=True):
    """A device in a container of its own, by emud of the wheel `driver`, which is of `release`.

    It has two devices, whose nodes belong to the group `NODE_GROUP`. The second node is handed into
    the room, in the folder of its release under `NODES_OF_RELEASES`; that of the release here is in
    `NODES` too, where users have it. The room's user is in the group if a device is `grouped`.
    """

    driver: Path
    sha256: str
    release: Literal["before", "here", "after"] = "here"
    grouped: bool = True

    @property
    def folders(self) -> tuple[str, ...]:
        own = f"{NODES_OF_RELEASES}/{self.release}"
        return (NODES, own) if self.release == "here" else (own,)


def isolation(setting: Setting, devices: Sequence[Apart] = ()) -> tuple[str, ...]:
    """What a record says about the walls of a room."""
    network = "with the engine's own network" if setting.network else "without network"
    root = "; its root read-only after the install" if setting.read_only else ""
    name = "" if setting.user in (0, PLAIN.user) else ", which has no name there,"
    apart = (
        f"a container of its own for the device of each release: "
        f"{', '.join(device.release for device in devices)}; one of its two nodes is handed in, "
        f"to the group {NODE_GROUP}, which the user is in"
    )
    return (
        f"container {network}, added capabilities, or mounts of the host{root}",
        f"no new privileges; commands run as uid {setting.user}{name} unless they install",
        f"at most {PROCESSES} processes, 80 % of the host's memory, 1 GiB of /dev/shm",
        *([apart] if devices else []),
    )


class Container:
    """The walls of one container room made from `image`.

    With `work_bytes` the folder `work` is a tmpfs of that size.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        *,
        work: str,
        work_bytes: int | None,
        setting: Setting = PLAIN,
        devices: Sequence[Apart] = (),
    ) -> None:
        self._engine = engine
        self._devices = tuple(devices)
        self._binds: list[str] = []
        self._image = image
        self._setting = setting
        self._tmpfs = {work: f"size={work_bytes},mode=1777,exec"} if work_bytes else {}
        self._client: docker.DockerClient | None = None
        self._container: Any = None
        self._ending = contextlib.ExitStack()
        self._running = contextlib.ExitStack()

    def start(self) -> None:
        """Create and start it. Rooms that dead runs left behind are removed first."""
        self._client = self._engine.client()
        self._ending.callback(self._client.close)
        sweep(self._client)
        for device in self._devices:
            self._binds += self._start_device(device)
        self._ending.callback(self._running.close)
        self._open(self._image)

    def _start_device(self, device: Apart) -> list[str]:
        """Start the device; the binds by which the room's container has its second node."""
        assert self._client is not None
        wheel = device.driver.read_bytes()
        if (got := hashlib.sha256(wheel).hexdigest()) != device.sha256:
            raise ChangedError(
                f"{device.driver} is not the wheel that the room is declared to have a device of",
                expected=device.sha256,
                got=got,
                mend="Run again when nothing writes to it",
            )
        with engine_errors("start a device"):
            box = self._ending.enter_context(
                started(
                    self._client,
                    self._image,
                    hostname=f"device-{device.release}",
                    network_mode="none",
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                    group_add=[str(NODE_GROUP)],
                    shm_size=SHM_BYTES,
                    volumes=[NODES],
                )
            )
            member = tarfile.TarInfo(device.driver.name)
            member.size = len(wheel)
            with io.BytesIO() as buffer:
                with tarfile.open(fileobj=buffer, mode="w") as archive:
                    archive.addfile(member, io.BytesIO(wheel))
                box.put_archive("/tmp", buffer.getvalue())
            install = ["-I", "-m", "pip", "install", "--no-index", "--no-deps", "--no-cache-dir"]
            install += ["--quiet", "--root-user-action=ignore", f"/tmp/{device.driver.name}"]
            serve = ["--node", f"{NODES}/emu0", "--devices", "2", "--group", "accel"]
            for words in (
                ["sh", "-c", f"echo accel:x:{NODE_GROUP}: >> /etc/group"],
                ["/opt/venv/bin/python", *install],
                ["/opt/venv/bin/emud", *serve],  # it comes back when the nodes are ready
            ):
                status, said = box.exec_run(words)
                if status != 0:
                    told = said.decode(errors="replace").strip()[-800:]
                    raise RoomError(
                        f"the device of release {device.release} did not start: "
                        f"{' '.join(words[:4])}: {told}"
                    )
            box.reload()
            mounts = {mount["Destination"]: mount["Source"] for mount in box.attrs["Mounts"]}
        return [f"{mounts[NODES]}/emu1:{folder}/emu1:rw" for folder in device.folders]

    def _open(self, image: str, **more: Any) -> None:
        assert self._client is not None
        memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8)
        options = {"tmpfs": self._tmpfs, "volumes": self._binds, **more}
        if any(device.grouped for device in self._devices):
            options["group_add"] = [str(NODE_GROUP)]
        if not self._setting.network:
            options["network_mode"] = "none"
        with engine_errors("start a room"):
            self._container = self._running.enter_context(
                started(
                    self._client,
                    image,
                    hostname="room",
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges"],
                    pids_limit=PROCESSES,
                    mem_limit=memory,
                    shm_size=SHM_BYTES,
                    **options,
                )
            )

    def seal(self) -> None:
        """Make the root of a read-only room read-only. What runs in it ends, and what lies in its
        work folder and /tmp is gone."""
        if not self._setting.read_only:
            return
        assert self._client is not None
        name = f"{SEALED}:{secrets.token_hex(8)}"
        with engine_errors("seal a room"):
            self._ending.callback(remove_image, self._client, name)
            repository, _, tag = name.partition(":")
            labels = f'LABEL {OWNER_LABEL}="{owner.current().text()}"'
            self._container.commit(repository=repository, tag=tag, changes=[labels])
        self._ending.callback(self._running.close)  # before the image is removed
        self._running.close()
        tmpfs = {**self._tmpfs, "/tmp": f"size={OPEN_BYTES},mode=1777,exec"}
        self._open(name, read_only=True, tmpfs=tmpfs)
        # The folder is in the image now, and a tmpfs takes the mode of what it lies over.
        self.execute(["chmod", "1777", *self._tmpfs], user="root", stdin=b"", timeout=60)

    def execute(self, argv: Sequence[str], *, user: str, stdin: bytes, timeout: float) -> Completed:
        """Run `argv`; `timeout` ends it inside, and the socket's limit bounds a hung engine."""
        assert self._client is not None and self._container is not None
        api = self._client.api
        bounded = ["/usr/bin/timeout", "--kill-after=5", f"{timeout:.3f}", *argv]
        start = time.monotonic()
        try:
            started = api.exec_create(
                self._container.id,
                bounded,
                stdin=bool(stdin),
                user="0" if user == "root" else str(self._setting.user),
            )["Id"]
            handle = api.exec_start(started, socket=True)
            handle._sock.settimeout(None)
            # What came together with the answer's head lies in the reader's buffer, and no more in
            # the socket that the SDK gives: to read there would lose the first of the output.
            # The answer closes its reader itself, and complains later where that is closed already.
            with handle._sock, contextlib.closing(handle._response):
                reader = handle._response.raw._fp.fp
                with ending(handle._sock, timeout + GRACE_SECONDS):
                    out, err = exchange(handle._sock, reader, stdin)
            status = api.exec_inspect(started)["ExitCode"]
        except TimeoutError as error:
            raise RoomError(f"the engine did not end {argv[0]} within its time") from error
        except (DockerException, requests.RequestException, OSError) as error:
            raise RoomError(f"the room is gone: {self.died() or error}") from error
        seconds = time.monotonic() - start
        if status in (None, 137) and (reason := self._died_soon()):
            raise RoomError(f"the room died while the command ran: {reason}")
        return Completed(
            argv=tuple(argv),
            status=128 - status if 128 < status <= 192 else status,
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            seconds=seconds,
            timed_out=status in (124, 137) and seconds >= timeout,
        )

    def attach(self, argv: Sequence[str]) -> int:
        """Through the engine's own program: the terminal is its work."""
        assert self._container is not None
        kind, endpoint = self._engine.kind.value, self._engine.endpoint
        words = ["docker", "--host", endpoint]
        if self._engine.kind is RoomKind.PODMAN:
            words = ["podman", "--url", endpoint]
        if shutil.which(kind) is None:
            raise HostError(
                f"{kind} has no program on PATH, which a shell needs",
                mend="Install it, or give a command after --: qualify shell -- true",
            )
        enter = ["exec", "--interactive", "--tty", "--user", str(self._setting.user)]
        return process.attach([*words, *enter, self._container.id, *argv])

    def died(self) -> str:
        """Why the room is dead, or ""."""
        if self._container is None:
            return "it is not open"
        try:
            self._container.reload()
        except NotFound:
            return "the container was removed"
        except (DockerException, requests.RequestException) as error:
            return f"the engine does not answer: {error}"
        state = self._container.attrs["State"]
        if state["Running"]:
            return ""
        reason = ", out of memory" if state.get("OOMKilled") else ""
        return f"the container ended with status {state['ExitCode']}{reason}"

    def _died_soon(self) -> str:
        """A killed command may be the first sign of a killed container: the engine lags behind."""
        deadline = time.monotonic() + LAG_SECONDS
        while not (reason := self.died()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return reason

    def close(self) -> None:
        """Remove the container, whatever state it is in."""
        self._container = self._client = None
        with engine_errors("remove a room"):
            self._ending.close()


@contextlib.contextmanager
def started(client: docker.DockerClient, image: str, **options: Any) -> Iterator[Any]:
    """A running container of this run, removed whatever happens.

    Its name is there before it is: a run that is interrupted while the engine makes it
    never reads the engine's answer, and removes it all the same.
    """
    name = f"qualify-{secrets.token_hex(8)}"
    late = False
    try:
        try:
            container = client.containers.create(
                image,
                FIRST_PROCESS,
                name=name,
                ulimits=LIMITS,
                labels={OWNER_LABEL: owner.current().text()},
                # The user's proxies, which may have a password in them, would be kept in an image.
                use_config_proxy=options.get("network_mode") == "bridge",
                **options,
            )
        except BaseException as error:
            late = not isinstance(error, Exception)
            raise
        container.start()
        yield container
    finally:
        remove(client, name, wait=LAG_SECONDS if late else 0)


def sweep(client: docker.DockerClient) -> None:
    """Remove containers and images whose run is dead, told by their owner label."""
    with engine_errors("list rooms"):
        found = client.containers.list(
            all=True, filters={"label": OWNER_LABEL}, ignore_removed=True
        )
        for container in found:
            if owner.left_behind(container.labels.get(OWNER_LABEL, "")):
                remove(client, container.id)
        for image in client.api.images(filters={"label": OWNER_LABEL}):
            if owner.left_behind(image["Labels"].get(OWNER_LABEL, "")):
                named = [name for name in image["RepoTags"] or () if name != "<none>:<none>"]
                for name in named or (image["Id"],):
                    remove_image(client, name)


def remove(client: docker.DockerClient, name: str, *, wait: float = 0) -> None:
    """Remove a container with what runs in it; one that another run removes is fine.

    One that is not there may still be on its way for `wait` seconds. A busy engine may take longer
    than it is given to answer, and removes it all the same: it is asked again until it is gone.
    """
    deadline = time.monotonic() + wait
    patience = time.monotonic() + REMOVE_SECONDS
    while True:
        try:
            client.api.remove_container(name, force=True, v=True)
            return
        except NotFound:
            if time.monotonic() >= deadline:
                return
        except (APIError, requests.Timeout) as error:
            conflict = isinstance(error, APIError) and error.status_code == 409
            if time.monotonic() >= patience or not (
                conflict or isinstance(error, requests.Timeout)
            ):
                raise
        time.sleep(0.05)


def remove_image(client: docker.DockerClient, name: str) -> None:
    """Remove an image; one that is not there, or that another run removes, is fine. A busy engine
    that does not answer in time removes it all the same, or the next sweep does."""
    with contextlib.suppress(APIError, requests.Timeout):
        client.api.remove_image(name, force=True)


@contextlib.contextmanager
def engine_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (APIError, DockerException, requests.RequestException) as error:
        raise EngineError(f"the container engine could not {what}: {error}") from error
