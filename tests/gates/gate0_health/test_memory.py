"""Device memory holds what was written to it, and shows it to nobody else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health.partner import partners

if TYPE_CHECKING:
    import emu_runtime
    from gate0_health.serving import Node

SEED = 11
SIZES = [1, 511, 512, 513, 65535, 65536, 65537, 1 << 20, (9 << 20) + 5, 32 << 20]

WRITE_SECRET = """
import emu_runtime
device = emu_runtime.Device(0)
for _ in range(4):
    device.write(device.alloc(8 << 20), b"secret!!" * (1 << 20))
device.synchronize()
"""
LOOK_FOR_SECRET = """
import emu_runtime
device = emu_runtime.Device(0)
blocks = [device.alloc(8 << 20) for _ in range(4)]
print(sum(device.read(block, 8 << 20).count(b"secret") for block in blocks))
"""


@pytest.mark.check("gate0.memory.pattern", obligations=["B2", "G0"], kind="focused test")
def test_pattern(runtime: emu_runtime.Device, detail: Callable[..., None]) -> None:
    """A block loses bytes, or two blocks are the same memory."""
    generator = random.Random(SEED)
    patterns = [generator.randbytes(size) for size in SIZES]
    addresses = [runtime.alloc(size) for size in SIZES]
    for address, pattern in zip(addresses, patterns, strict=True):
        runtime.write(address, pattern)
    for address, pattern in zip(addresses, patterns, strict=True):
        assert runtime.read(address, len(pattern)) == pattern, f"{len(pattern)} bytes"
    copied = runtime.alloc(SIZES[-1])
    runtime.copy(copied, addresses[-1], SIZES[-1])
    assert runtime.read(copied, SIZES[-1]) == patterns[-1], "a copy on the device"
    runtime.fill(copied, 0x5A, SIZES[-1] - 1)
    last = runtime.read(copied, SIZES[-1])
    assert last == b"\x5a" * (SIZES[-1] - 1) + patterns[-1][-1:], "a fill"
    for address in [*addresses, copied]:
        runtime.free(address)
    detail(seed=SEED, sizes=SIZES)


@pytest.mark.check("gate0.memory.pinned", obligations=["G0"], kind="focused test")
def test_pinned(runtime: emu_runtime.Device) -> None:
    """What the device reads from, or writes to, pinned memory is not what is there."""
    import emu_runtime

    size = 5 << 20
    source, target = emu_runtime.PinnedBuffer(size), emu_runtime.PinnedBuffer(size)
    pattern = random.Random(SEED).randbytes(size)
    memoryview(source.data).cast("B")[:] = pattern
    address = runtime.alloc(size)
    runtime.write(address, source)
    runtime.read_pinned(target, address)
    runtime.synchronize()
    assert bytes(target) == pattern
    runtime.free(address)
    source.free()
    target.free()


@pytest.mark.check("gate0.memory.fresh", obligations=["G0", "R2"], kind="focused test")
def test_fresh(node: Node) -> None:
    """Fresh memory shows the bytes of the process that had it before."""
    wrote = run_python(WRITE_SECRET, env=node.env)
    assert wrote.status == 0, wrote.told
    looked = run_python(LOOK_FOR_SECRET, env=node.env)
    assert looked.status == 0, looked.told
    assert looked.stdout.strip() == "0"


@pytest.mark.check("gate0.memory.access", obligations=["G0", "R2"], kind="focused test")
def test_access(node: Node) -> None:
    """A command touches a page that its context forbids it, or is refused one that it allows."""
    with partners(node.env, ("access",)) as (client,):
        told = client.hear()
    refused, done = "PAGE_FAULT", "done"
    reads = [refused, done, refused, done]  # with no access, reading, writing, both
    writes = [refused, refused, done, done]
    assert told == {
        "load": reads, "store": writes, "copy_from": reads, "copy_to": writes, "fill": writes,
    }  # fmt: skip


@pytest.mark.check("gate0.memory.bounded", obligations=["G0", "Q8"], kind="focused test")
def test_out_of_memory(runtime: emu_runtime.Device) -> None:
    """Asking for too much breaks the device, or the message does not say how much there is."""
    from emu_runtime.errors import OutOfMemoryError

    total = runtime.properties().memory_bytes
    with pytest.raises(OutOfMemoryError, match=str(total)):
        runtime.alloc(total + 1)
    address = runtime.alloc(4096)
    runtime.write(address, b"x" * 4096)
    assert runtime.read(address, 4096) == b"x" * 4096
    runtime.free(address)
