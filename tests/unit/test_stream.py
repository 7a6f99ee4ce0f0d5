"""The exchange with a command in a container, over a socket pair."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from qualify.stream import ending, exchange


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
