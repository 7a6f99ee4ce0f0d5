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


def rewritten(old: str, new: str) -> Seed:
    """The device does another instruction than the program says."""

    def assemble(original: Any, self: Any, device: int, text: str) -> None:
        original(self, device, text.replace(old, new))

    return wrap("emu_runtime.Module.__init__", assemble)


def told(**figures: Any) -> str:
    """In a child: telemetry that says this."""
    return (
        CHILD_DEVICE
        + "telemetry = D.telemetry\n"
        + f"D.telemetry = lambda self: dataclasses.replace(telemetry(self), **{figures!r})"
    )


def whole_image() -> bytes:
    from gate0_health import test_firmware

    return test_firmware.image(test_firmware.SAME_INDEX)


def without_time(original: Any, self: Any) -> Any:
    """What was spent on memory is forgotten."""
    return dataclasses.replace(original(self), spent_memory_ticks=0)


def kept(*names: str) -> Seed:
    """Telemetry whose figures of these names stand still."""

    def seed(monkeypatch: pytest.MonkeyPatch) -> None:
        import emu_runtime

        original = emu_runtime.Device.telemetry
        first: dict[int, dict[str, Any]] = {}

        def telemetry(self: Any) -> Any:
            now = original(self)
            old = first.setdefault(self.index, {name: getattr(now, name) for name in names})
            return dataclasses.replace(now, **old)

        monkeypatch.setattr(emu_runtime.Device, "telemetry", telemetry)

    return seed


def into_own(
    original: Any, self: Any, kind: int, context: int = 0, object: int = 0, *words: int, **k: Any
) -> Any:
    """A request about an object of another's context is let into one: the client's first."""
    from gate0_health import raw

    own = self.__dict__.get("seed_own", context)
    answer = original(self, kind, own if object else context, object, *words, **k)
    if kind == raw.CONTEXT_CREATE:
        self.__dict__.setdefault("seed_own", answer.value)
    return answer


NO_WAIT = "native.Queue.wait = lambda self, fence, value: None"


def in_partner(code: str) -> Seed:
    """`code` runs first in each process that takes a role beside the check's."""
    return replace("gate0_health.partner.PRELUDE", f"from gate0_health import native\n{code}")


def other_stepping(original: Any, folder: Any, *options: str, number: int = 0) -> Any:
    """The silicon has the erratum that it should not have, and the other way round."""
    other = {"A0": "A1", "A1": "A0"}
    return original(folder, *(other.get(word, word) for word in options), number=number)


def late_start(original: Any, folder: Any, *options: str, number: int = 0) -> Any:
    """The state folder is none: what was written is gone when the device starts again."""
    known = [word for word in options if word != "--state-dir" and "/state" not in word]
    return original(folder, *known, number=number)


CHILD_DEVICE = "import emu_runtime, dataclasses, os\nD = emu_runtime.Device\n"

SEEDS: dict[str, Seed] = {
    "gate0.host.supported": replace("platform.machine", lambda: "riscv64"),
    "gate0.host.shared_memory": replace("fcntl.fcntl", lambda *a: 0),
    "gate0.diagnostic.emu_diag": without_device,
    "gate0.identity.read": in_child(
        CHILD_DEVICE
        + "import uuid\n"
        + "properties = D.properties\n"
        + "other = lambda: str(uuid.uuid4())\n"
        + "D.properties = lambda self: dataclasses.replace(properties(self), uuid=other())"
    ),
    "gate0.configuration.runs": wrap(
        "emu_runtime.Device.properties",
        lambda original, self: dataclasses.replace(original(self), stepping="B0"),
    ),
    "gate0.firmware.version": replace("importlib.metadata.version", lambda name: "0.0.9"),
    "gate0.telemetry.advances": frozen_telemetry,
    "gate0.conversion.from_narrow": rewritten("cvt.trunc_sat.f8e4m3", "cvt.even_sat.f8e4m3"),
    "gate0.conversion.to_narrow": rewritten("cvt.even.f16.f64", "cvt.trunc.f16.f64"),
    "gate0.conversion.as_pytorch": rewritten("cvt.even.bf16", "cvt.trunc.bf16"),
    "gate0.instruction.arithmetic": rewritten("sub.f64 ", "add.f64 "),
    "gate0.instruction.selection": rewritten("sel.bf16 v3, p0, v1, v2", "sel.bf16 v3, p0, v2, v1"),
    "gate0.instruction.integer": rewritten("rem.i16 ", "div.i16 "),
    "gate0.instruction.philox": rewritten("philox.w3", "philox.w2"),
    "gate0.instruction.scan": rewritten("scanx.", "scan."),
    "gate0.instruction.atomic": rewritten("red.add", "red.max"),
    "gate0.instruction.bounded": rewritten("@p0 gatherb", "gatherb"),
    "gate0.instruction.out_of_bounds": in_child(
        CHILD_DEVICE
        + "init = emu_runtime.Module.__init__\n"
        + "emu_runtime.Module.__init__ = lambda self, device, text: "
        + "init(self, device, text.replace('.fault', '.drop'))"
    ),
    "gate0.instruction.transcendental": rewritten("exp2.f32 v0, v1", "exp.f32 v0, v1"),
    "gate0.instruction.special_values": rewritten("log1p.", "expm1."),
    "gate0.instruction.matrix": rewritten("mload.column", "mload.row"),
    "gate0.device.deterministic": in_child(
        CHILD_DEVICE
        + "init = emu_runtime.Module.__init__\n"
        + "emu_runtime.Module.__init__ = lambda self, device, text: "
        + "init(self, device, text.replace('sum.f32', 'max.f32') if device == 2 else text)"
    ),
    "gate0.stepping.errata": wrap("gate0_health.conftest.served", other_stepping),
    "gate0.interface.window": replace("gate0_health.test_stepping.FIRST_INTERFACE", 999),
    "gate0.isolation.memory": in_child(
        CHILD_DEVICE
        + "alloc = D.alloc\n"
        + "def everything(self, size):\n"
        + "    alloc(self, 64 << 20)\n"
        + "    return alloc(self, size)\n"
        + "D.alloc = everything"
    ),
    "gate0.isolation.handles": both(
        wrap("gate0_health.raw.Client.ask", into_own),
        replace("gate0_health.raw.Queue.ends", lambda self: True),
    ),
    "gate0.firmware.upgrade": replace("emu_driver_shim.driver.Device.reset", lambda self: None),
    "gate0.firmware.rollback": replace("emu_driver_shim.driver.Device.rollback", lambda self: None),
    "gate0.firmware.rollback_refused": replace(
        "gate0_health.test_firmware.HIGHER_INDEX", "same-index.img"
    ),
    "gate0.firmware.bad_signature": wrap(
        "emu_driver_shim.driver.Device.write_firmware",
        lambda original, self, data: original(self, whole_image() if len(data) == 203 else data),
    ),
    "gate0.firmware.minimum_driver": replace(
        "gate0_health.test_firmware.NEWER_DRIVER", "same-index.img"
    ),
    "gate0.firmware.interrupted": wrap("gate0_health.test_firmware.served", late_start),
    "gate0.event.on_command_clock": wrap(
        "emu_driver_shim.firmware.event_data",
        lambda original, raw: {**original(raw), "ticks": original(raw)["nanoseconds"]},
    ),
    "gate0.telemetry.adds_up": wrap("emu_runtime.Device.telemetry", without_time),
    "gate0.telemetry.bandwidth": kept("to_device_ticks"),
    "gate0.telemetry.queue_delay": kept("queue_delay_ticks"),
    "gate0.telemetry.memory_pressure": in_child(told(memory_pressure=0)),
    "gate0.power.modes": in_child(CHILD_DEVICE + "D.set_power_mode = lambda self, name: None"),
    "gate0.power.throttling": in_child(told(throttle=0)),
    "gate0.memory.pattern": wrap("emu_runtime.Device.alloc", shared_block),
    "gate0.memory.pinned": replace("emu_runtime.Device.read_pinned", lambda *a, **k: None),
    "gate0.memory.access": in_partner(
        "protect = native.Context.protect\n"
        "native.Context.protect = lambda self, *a: protect(self, *a[:-1], a[-1] or 1)"
    ),
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
    "gate0.queue.fair": in_partner(
        "import sys\n"
        "records = native.Context.records\n"
        "half = 2 if sys.argv[2:3] == ['1'] else 1\n"
        "native.Context.records = lambda self: records(self)[::half]"
    ),
    "gate0.queue.priority": in_partner(
        "queue = native.Context.queue\n"
        "native.Context.queue = lambda self, kind=0, priority=0: queue(self, kind)"
    ),
    "gate0.queue.cancel": in_partner(
        "cancel = native.Queue.cancel\n"
        "native.Queue.cancel = lambda self, start, running=False: "
        "cancel(self, start + (not running), running)"
    ),
    "gate0.fence.cross_process": in_partner(NO_WAIT),
    "gate0.fence.cross_device": in_partner(NO_WAIT),
    "gate0.link.copy": in_partner(
        "copy = native.Queue.copy_peer\n"
        "native.Queue.copy_peer = lambda self, *a: copy(self, *a[:-1], a[-1] - 1)"
    ),
    "gate0.link.down": in_partner(
        "from emu_driver_shim import driver\n"
        "driver.Device.set_link_up = lambda self, index, up: None"
    ),
    "gate0.fence.cross_queue": replace("emu_runtime.Stream.wait_event", lambda *a: None),
    "gate0.event.completes": replace("emu_runtime.Event.query", lambda self: True),
    "gate0.kernel.profile": replace(
        "emu_runtime.Activity.ticks", property(lambda self: self.end_ns - self.start_ns)
    ),
    "gate0.program.refused": silent_module,
    "gate0.reset.old_handles": in_child(CHILD_DEVICE + "D.reset = lambda self: None"),
    "gate0.fault.injected": in_child(
        "from emu_driver_shim import driver\ndriver.Device.inject = lambda self, fault: 1"
    ),
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
