"""Steppings and interfaces: errata show, are worked around, and older clients are served."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health import raw
from gate0_health.stated import ERRATA

if TYPE_CHECKING:
    from gate0_health.serving import Configuration, Node

# 20 bytes of arguments, of which the last four lie in a granule of 16 that is cut.
LAST = """
.program last
.lanes 64
.args 20
arg.i64 s0, 0
arg.i32 s1, 16
sstore.i32 s1, s0
exit
"""
SAID = 0xDECAFBAD
FIRST_INTERFACE = 1000
THROUGH_THE_LIBRARY = f"""
import struct, emu_runtime
device = emu_runtime.Device(0)
word = device.alloc(4)
module = emu_runtime.Module(0, '''{LAST}''')
module.launch((1, 1, 1), struct.pack("<qqI", word, 0, {SAID}))
print(int.from_bytes(device.read(word, 4), "little"))
"""


def current_interface() -> int:
    from emu_driver_shim import interface_version

    major, minor = interface_version()
    return int(major * 1000 + minor)


def assembled(folder: Path) -> bytes:
    """LAST as a binary, by the installed assembler."""
    import emu_driver_shim

    text, binary = folder / "last.s", folder / "last.bin"
    text.write_text(LAST)
    tool = emu_driver_shim.emud_path().with_name("emu-as")
    subprocess.run([str(tool), str(text), "-o", str(binary)], check=True, timeout=60)
    return binary.read_bytes()


def stored(node: Node, binary: bytes, interface: int, length: int) -> int:
    """What a client of that interface, giving `length` bytes of arguments, finds stored."""
    with raw.Client(node.folder, interface) as client:
        assert client.status == raw.OK, client.cause
        context = client.value(raw.CONTEXT_CREATE)
        program = client.value(
            raw.PROGRAM_LOAD, context, 0, 0, len(binary), fd=client.memory(binary)
        )
        address = client.value(raw.MEMORY_ALLOC, context, 0, 0, 65536)
        host = client.memory(bytes(4096))
        buffer = client.value(raw.HOST_REGISTER, context, 0, 0, 4096, fd=host)
        queue = raw.Queue(client, context)
        arguments = struct.pack("<qqI", address, 0, SAID)
        queue.submit(raw.LAUNCH, program, length=length, arguments=arguments)
        queue.submit(raw.COPY_FROM_DEVICE, buffer, address, 0, 4)
        assert queue.ends(), queue.fault()
        return int.from_bytes(os.pread(host, 4, 0), "little")


@pytest.mark.check("gate0.stepping.errata", obligations=["G0", "R1"], kind="focused test")
def test_errata(
    node: Node, configuration: Configuration, tmp_path: Path, detail: Callable[..., None]
) -> None:
    """An erratum is there and not worked around, or its workaround hides that it is gone."""
    binary, current = assembled(tmp_path), current_interface()
    found = {
        "bare": stored(node, binary, current, 20),
        "whole_granules": stored(node, binary, current, 32),
        "older_client": stored(node, binary, FIRST_INTERFACE, 20),
    }
    done = run_python(THROUGH_THE_LIBRARY, env=node.env)
    assert done.status == 0, done.told
    found["library"] = int(done.stdout)
    errata = ERRATA[configuration.stepping]
    detail(errata=errata, stored={name: hex(value) for name, value in found.items()})
    assert found.pop("bare") == (0 if "argument-tail" in errata else SAID)
    assert set(found.values()) == {SAID}


@pytest.mark.check("gate0.interface.window", obligations=["G0", "C3"], kind="focused test")
def test_window(node: Node, detail: Callable[..., None]) -> None:
    """A client of an older minor is not served, or one that can't be is not told both versions."""
    current = current_interface()
    served = {}
    for number in range(FIRST_INTERFACE, current + 1):
        with raw.Client(node.folder, number) as client:
            assert client.status == raw.OK, client.cause
            context = client.value(raw.CONTEXT_CREATE)
            address = client.value(raw.MEMORY_ALLOC, context, 0, 0, 65536)
            host = client.memory(b"window" + bytes(4090))
            buffer = client.value(raw.HOST_REGISTER, context, 0, 0, 4096, fd=host)
            queue = raw.Queue(client, context)
            queue.submit(raw.COPY_TO_DEVICE, address, buffer, 0, 6)
            queue.submit(raw.COPY_FROM_DEVICE, buffer, address, 4000, 6)
            assert queue.ends(), queue.fault()
            sizes = [len(client.ask(kind).payload) for kind in (raw.DEVICE_INFO, raw.TELEMETRY)]
            served[number] = [os.pread(host, 6, 4000) == b"window", *sizes]
    refused = {}
    for number in (current + 1, current + 1000, current - 1000):
        with raw.Client(node.folder, number) as client:
            refused[number] = (client.status, client.cause)
    detail(current=current, served=served, refused=refused)
    # The payloads are as large as those of 1.0 were.
    assert set(map(tuple, served.values())) == {(True, 488, 152)}
    for number, (status, cause) in refused.items():
        assert status == raw.VERSION
        assert f"{number // 1000}.{number % 1000}" in cause
        assert f"{current // 1000}.{current % 1000}" in cause
