"""What rooms are made with on this machine: a container engine, a sandbox, or nothing.

An engine is a value. `choose` looks once and says in `note`, in one sentence,
why it took what it took.
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import docker
import msgspec
import requests
from docker.errors import DockerException

from qualify import sandbox
from qualify.errors import EngineError, InputError

ANSWER_SECONDS = 8


class RoomKind(enum.Enum):
    DOCKER = "docker"
    PODMAN = "podman"
    SANDBOX = "sandbox"
    PLAIN = "plain"


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One way to make rooms. `endpoint` is the engine's socket URL, empty without an engine."""

    kind: RoomKind
    endpoint: str = ""
    version: str = ""
    note: str = ""

    @property
    def has_images(self) -> bool:
        return self.kind in (RoomKind.DOCKER, RoomKind.PODMAN)

    @contextlib.contextmanager
    def open_client(self, timeout: float = 60) -> Iterator[docker.DockerClient]:
        """`client`, closed at the end."""
        client = self.client(timeout)
        try:
            yield client
        finally:
            client.close()

    def client(self, timeout: float = 60) -> docker.DockerClient:
        """A client of the container engine. Raises EngineError where there is none.

        `timeout` bounds each request, so it is that of the longest step.
        """
        if not self.has_images:
            raise EngineError(f"a {self.kind.value} room has no container engine")
        try:
            return docker.DockerClient(base_url=self.endpoint, version="auto", timeout=timeout)
        except (DockerException, requests.RequestException) as error:
            raise EngineError(
                f"{self.kind.value} at {self.endpoint} does not answer: {error}"
            ) from error


def choose(asked: str = "auto") -> Engine:
    """The engine for "auto", "docker", "podman", "sandbox" or "plain".

    "auto" takes the first that answers, in that order. Raises InputError for
    another word, EngineError when a named engine is not there, and EngineError
    within 10 s when an engine's socket accepts and does not answer.
    """
    words = ("auto", *(kind.value for kind in RoomKind))
    if asked not in words:
        raise InputError("unknown room kind", expected=", ".join(words), got=repr(asked))
    if asked == "plain":
        return Engine(kind=RoomKind.PLAIN, note="plain environment, as asked")
    reasons = []
    for kind in (RoomKind.DOCKER, RoomKind.PODMAN):
        if asked in ("auto", kind.value):
            reason = ""
            for endpoint in _endpoints(kind):
                reason = _reachable(endpoint)
                if not reason:
                    return Engine(
                        kind=kind,
                        endpoint=endpoint,
                        version=_version(kind, endpoint),
                        note=f"{kind.value} answers at {endpoint}",
                    )
                reasons.append(f"{kind.value}: {reason}")
            if asked == kind.value:
                raise EngineError(
                    f"no {kind.value} on this machine ({reason})",
                    mend=_START[kind],
                )
    refusal = sandbox.refusal()
    if not refusal:
        why = "as asked" if asked == "sandbox" else "; ".join(reasons)
        return Engine(kind=RoomKind.SANDBOX, note=f"namespace sandbox ({why})")
    if asked == "sandbox":
        raise EngineError(
            f"this machine refuses namespaces ({refusal})",
            mend="Allow unprivileged user namespaces, or use --room plain",
        )
    reasons.append(f"namespaces: {refusal}")
    return Engine(kind=RoomKind.PLAIN, note=f"plain environment ({'; '.join(reasons)})")


_START = {
    RoomKind.DOCKER: "Start it (as root: dockerd &), or leave --room out to use what is there",
    RoomKind.PODMAN: "Start its service (podman system service --time 0 &), or leave --room out",
}


def _endpoints(kind: RoomKind) -> tuple[str, ...]:
    if kind is RoomKind.DOCKER:
        return (os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock",)
    if asked := os.environ.get("CONTAINER_HOST"):
        return (asked,)
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return (f"unix://{runtime}/podman/podman.sock", "unix:///run/podman/podman.sock")


def _reachable(endpoint: str) -> str:
    """Why nobody listens at `endpoint`, or "". Other than sockets, nothing can be looked at."""
    try:
        where = urllib.parse.urlsplit(endpoint)
    except ValueError as error:
        return f"{endpoint}: {error}"
    try:
        if where.scheme == "unix":
            if not Path(where.path).exists():
                return f"no socket at {where.path}"
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(ANSWER_SECONDS)
                probe.connect(where.path)
        elif where.scheme in ("tcp", "http", "https") and where.hostname and where.port:
            address = (where.hostname, where.port)
            socket.create_connection(address, timeout=ANSWER_SECONDS).close()
    except ConnectionRefusedError:
        return f"nothing listens at {where.path or where.netloc}"
    except PermissionError:
        return f"this user may not open {where.path}"
    except (OSError, ValueError) as error:
        return f"{endpoint}: {error}"
    return ""


def _version(kind: RoomKind, endpoint: str) -> str:
    try:
        client = docker.DockerClient(base_url=endpoint, version="auto", timeout=ANSWER_SECONDS)
        try:
            return str(client.version()["Version"])
        finally:
            client.close()
    except (DockerException, requests.RequestException) as error:
        hangs = any(isinstance(e, (requests.Timeout, TimeoutError)) for e in _causes(error))
        what = "accepts connections and does not answer" if hangs else "cannot be asked"
        raise EngineError(
            f"{kind.value} at {endpoint} {what}",
            expected=f"its version within {ANSWER_SECONDS} s",
            got=str(error).splitlines()[0] if str(error) else type(error).__name__,
            mend=f"Restart {kind.value}, or pass --room sandbox",
        ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
