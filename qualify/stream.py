"""The exchange with a command in a container, over the socket that the engine gives for it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def ending(stream: socket.socket, seconds: float) -> Iterator[None]:
    """TimeoutError if what is done with `stream` takes longer, however steadily it drips."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"not done after {seconds:.0f} s")


def exchange(stream: socket.socket, reader: BinaryIO, stdin: bytes) -> tuple[bytes, bytes]:
    """Feed `stdin` and collect what comes back, in the frames of Docker's attach format.

    `reader` is the buffered reader over `stream`, from where the answer's head was read. Both
    are the caller's to close.
    """

    def feed() -> None:
        with contextlib.suppress(OSError):
            stream.sendall(stdin)
            stream.shutdown(socket.SHUT_WR)

    feeder = threading.Thread(target=feed, daemon=True)
    if stdin:
        feeder.start()
    collected: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
    while len(header := reader.read(8)) == 8:
        collected[header[0]] += reader.read(int.from_bytes(header[4:8], "big"))
    return bytes(collected[1]), bytes(collected[2])
