"""Which engine is taken, and what is said of one that is not there or does not answer."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qualify import engine
from qualify.engine import RoomKind
from qualify.errors import EngineError, InputError


@pytest.fixture
def silent(socket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A socket that accepts (its backlog does) and never answers, where docker is looked for."""
    path = socket_folder / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield path


@pytest.mark.parametrize("asked", ["auto", "docker"])
def test_an_engine_that_hangs_is_an_error_soon(asked: str, silent: Path) -> None:
    start = time.monotonic()
    with pytest.raises(EngineError, match=r"accepts connections and does not answer") as caught:
        engine.choose(asked)
    assert time.monotonic() - start < 10
    assert "--room sandbox" in str(caught.value)


@pytest.fixture
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(name, f"unix://{tmp_path}/none.sock")


@pytest.mark.parametrize("asked", ["docker", "podman"])
def test_an_engine_asked_for_and_not_there(asked: str, absent: None) -> None:
    with pytest.raises(EngineError, match=f"no {asked} on this machine .*no socket.*Start"):
        engine.choose(asked)


def test_without_an_engine_the_note_says_why(absent: None) -> None:
    chosen = engine.choose("auto")
    assert chosen.kind in (RoomKind.SANDBOX, RoomKind.PLAIN) and not chosen.has_images
    assert "docker: no socket" in chosen.note


def test_a_socket_that_nobody_listens_at_is_no_engine(
    socket_folder: Path, absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = socket_folder / "stale.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert "docker: nothing listens" in engine.choose("auto").note


def test_an_address_that_is_none_is_no_engine(
    absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://[::1:2375")
    assert "docker: tcp://[::1:2375: Invalid IPv6 URL" in engine.choose("auto").note


@pytest.fixture
def port() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


def test_a_port_that_nobody_listens_at_is_no_engine(
    port: socket.socket, absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"127.0.0.1:{port.getsockname()[1]}"
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{where}")
    assert f"docker: nothing listens at {where}" in engine.choose("auto").note
    with pytest.raises(EngineError, match=f"no docker on this machine .nothing listens at {where}"):
        engine.choose("docker")


def test_something_else_that_answers_is_not_said_to_hang(
    port: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = port.accept()
                with connection:
                    connection.sendall(b"SSH-2.0-not_an_engine\r\n")

    port.listen(8)
    threading.Thread(target=answer, daemon=True).start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port.getsockname()[1]}")
    with pytest.raises(EngineError, match="cannot be asked: expected its version"):
        engine.choose("docker")
    port.shutdown(socket.SHUT_RDWR)


def test_an_unknown_word_names_those_that_are() -> None:
    with pytest.raises(InputError, match="auto, docker, podman, sandbox, plain, got 'vm'"):
        engine.choose("vm")


def test_plain_is_taken_when_asked() -> None:
    assert engine.choose("plain").kind is RoomKind.PLAIN
