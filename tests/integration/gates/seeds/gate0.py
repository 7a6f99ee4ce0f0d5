"""Seeds of gate 0."""

from __future__ import annotations

import dataclasses
import signal
from typing import Any

import pytest

from seeds.seed import Seed, both, in_child, replace, wrap


def without_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_PRIVATE", "0")
    monkeypatch.setenv("EMU_DEVICE_DIR", "/nonexistent")


def frozen_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    import emu_runtime

    first = emu_runtime.Device(0).telemetry()
    monkeypatch.setattr(emu_runtime.Device, "telemetry", lambda self: first)


def shared_block(original: Any, self: Any, size: int, stream: Any = None) -> int:
    """The allocator hands out one block twice."""
    blocks = self.__dict__.setdefault("seed_blocks", {})
    address: int = blocks.setdefault(size > 1 << 20, original(self, max(size, 64 << 20), stream))
    return address


def swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each third launch is held back behind the next one."""
    import emu_runtime

    original = emu_runtime.Module.launch
    held: list[tuple[Any, ...]] = []
    count = [0]

    def launch(*arguments: Any) -> None:
        count[0] += 1
        if count[0] % 3 == 0:
            held.append(arguments)
            return
        original(*arguments)
        while held:
            original(*held.pop())

    monkeypatch.setattr(emu_runtime.Module, "launch", launch)


def silent_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import emu_runtime
    from emu_runtime.errors import BadProgramError

    original = emu_runtime.Module.__init__

    def init(self: Any, device: int, text: str) -> None:
        try:
            original(self, device, text)
        except BadProgramError:
            self.handle = None

    monkeypatch.setattr(emu_runtime.Module, "__init__", init)


def bare_out_of_memory(original: Any, self: Any, size: int, stream: Any = None) -> int:
    from emu_runtime.errors import OutOfMemoryError

    if size > 1 << 32:
        raise OutOfMemoryError("out of memory")
    address: int = original(self, size, stream)
    return address


CHILD_DEVICE = "import emu_runtime, dataclasses, os\nD = emu_runtime.Device\n"

SEEDS: dict[str, Seed] = {
    "gate0.host.supported": replace("platform.machine", lambda: "riscv64"),
    "gate0.host.shared_memory": replace("fcntl.fcntl", lambda *a: 0),
    "gate0.diagnostic.emu_diag": without_device,
    "gate0.identity.read": wrap(
        "emu_runtime.Device.properties",
        lambda original, self: dataclasses.replace(original(self), uuid="unknown"),
    ),
    "gate0.firmware.version": replace("importlib.metadata.version", lambda name: "0.0.9"),
    "gate0.telemetry.advances": frozen_telemetry,
    "gate0.memory.pattern": wrap("emu_runtime.Device.alloc", shared_block),
    "gate0.memory.pinned": replace("emu_runtime.Device.read_pinned", lambda *a, **k: None),
    "gate0.memory.fresh": in_child(
        CHILD_DEVICE
        + "alloc = D.alloc\n"
        + "def stale(self, size):\n"
        + "    block = alloc(self, size)\n"
        + "    self.write(block, b'secret' + bytes(size - 6))\n"
        + "    return block\n"
        + "D.alloc = stale"
    ),
    "gate0.memory.bounded": wrap("emu_runtime.Device.alloc", bare_out_of_memory),
    "gate0.queue.order": swapped,
    "gate0.fence.cross_queue": replace("emu_runtime.Stream.wait_event", lambda *a: None),
    "gate0.event.completes": replace("emu_runtime.Event.query", lambda self: True),
    "gate0.kernel.profile": replace(
        "emu_runtime.Activity.ticks", property(lambda self: self.end_ns - self.start_ns)
    ),
    "gate0.program.refused": silent_module,
    "gate0.reset.old_handles": in_child(CHILD_DEVICE + "D.reset = lambda self: None"),
    "gate0.fault.page_fault_typed": in_child(
        "from emu_runtime import errors\n"
        "init = errors.EmuError.__init__\n"
        "def bare(self, cause, **k):\n"
        "    init(self, 'the device failed')\n"
        "errors.EmuError.__init__ = bare"
    ),
    "gate0.device.killed_says_lost": in_child(
        CHILD_DEVICE
        + "from emu_runtime import errors\n"
        + "errors.BY_STATUS[13] = errors.InvalidArgumentError"
    ),
    "gate0.shutdown.leaves_nothing": both(
        in_child(
            CHILD_DEVICE
            + "properties = D.properties\n"
            + "D.properties = lambda self: dataclasses.replace(properties(self), emud_pid=1)"
        ),
        wrap("gate0_health.test_fault.ends", lambda original, pid: original(pid, 0.2)),
    ),
    "gate0.shutdown.node_is_removed": replace("signal.SIGTERM", signal.SIGKILL),
}
