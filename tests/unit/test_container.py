"""The exchange with a command in a container, over a socket pair."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import cast

import docker
import pytest
import requests
from docker.errors import APIError, NotFound

from qualify.container import ending, exchange, isolation, remove
from qualify.images import PLAIN, Setting


def frame(number: int, data: bytes) -> bytes:
    return bytes([number, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def test_output_that_came_with_the_head_is_not_lost() -> None:
    here, engine = socket.socketpair()
    with engine, here, here.makefile("rb") as reader:
        engine.sendall(b"101\r\n" + frame(1, b"first ") + frame(2, b"aside"))
        assert reader.readline() == b"101\r\n"  # and the rest is in the reader's buffer now
        engine.sendall(frame(1, b"second"))
        engine.shutdown(socket.SHUT_WR)
        assert exchange(here, reader, b"") == (b"first second", b"aside")


def test_input_is_fed_while_output_comes() -> None:
    here, engine = socket.socketpair()
    with engine, here, here.makefile("rb") as reader:
        sent = bytes(3_000_000)  # more than the socket holds
        engine.sendall(frame(2, b"x"))
        received = bytearray()

        def drain() -> None:
            while block := engine.recv(65536):
                received.extend(block)
            engine.sendall(frame(1, b"done"))
            engine.close()

        thread = threading.Thread(target=drain)
        thread.start()
        assert exchange(here, reader, sent) == (b"done", b"x")
        thread.join()
        assert bytes(received) == sent


def test_an_engine_that_drips_is_ended() -> None:
    here, engine = socket.socketpair()
    stop = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.02):
                engine.sendall(frame(1, b"."))

    thread = threading.Thread(target=drip)
    with engine, here, here.makefile("rb") as reader:
        thread.start()
        try:
            with pytest.raises(TimeoutError, match="not done"), ending(here, 0.3):
                exchange(here, reader, b"")
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (PLAIN, ["without network", "uid 1000 unless"]),
        (Setting(name="n", network=True), ["with the engine's own network"]),
        (Setting(name="u", user=4321), ["uid 4321, which has no name there, unless"]),
        (Setting(name="r", user=0), ["uid 0 unless"]),
        (Setting(name="o", read_only=True), ["its root read-only after the install"]),
    ],
)
def test_a_record_says_what_the_walls_are(setting: Setting, says: list[str]) -> None:
    words = "; ".join(isolation(setting))
    assert all(part in words for part in says)


def test_a_busy_engine_is_asked_again_until_the_container_is_gone() -> None:
    """It does not answer in time, then says that it is at it, then that there is none."""
    answers = [
        requests.ReadTimeout("read timeout=60"),
        APIError("removal is in progress", response=said(409)),
        NotFound("no such container"),
    ]

    class Api:
        def remove_container(self, name: str, **options: bool) -> None:
            raise answers.pop(0)

    class Client:
        api = Api()

    remove(cast(docker.DockerClient, Client()), "a")
    assert not answers


def test_what_the_engine_refuses_is_told() -> None:
    class Api:
        def remove_container(self, name: str, **options: bool) -> None:
            raise APIError("no", response=said(500))

    class Client:
        api = Api()

    with pytest.raises(APIError):
        remove(cast(docker.DockerClient, Client()), "a")


def said(status: int) -> requests.Response:
    answer = requests.Response()
    answer.status_code = status
    return answer
