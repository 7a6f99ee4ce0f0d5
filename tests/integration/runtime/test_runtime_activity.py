"""Activity records of a context that has ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from device_programs import EMPTY

from qualify.process import Completed

pytestmark = pytest.mark.integration

PRELUDE = """
import json
import emu_runtime as emu
from emu_runtime.activity import Recording

device = emu.Device(0)
recording = Recording()
recording.start()
device.fill(device.alloc(4096), 1, 4096)
"""
TELL = """
records, lost = recording.read()
print(json.dumps([[r.kind.name, r.status] for r in records] + [lost]))
"""


def test_a_reset_keeps_what_was_recorded(script: Callable[..., Completed]) -> None:
    """Of the fault that was the reason for it as well."""
    done = script(
        f"""{PRELUDE}
device.fill(64, 1, 1)
try:
    device.synchronize()
except emu.errors.PageFaultError as error:
    fault = error.status
device.reset()
device.fill(device.alloc(4096), 1, 4096)
device.synchronize()
{TELL}"""
    )
    assert done.ok, done.stderr
    *records, lost = json.loads(done.stdout)
    assert [kind for kind, status in records if status == 0] == ["FILL", "FILL"]
    assert [status for _, status in records if status != 0] == [7]
    assert lost == 0


def test_a_shutdown_keeps_what_was_recorded(script: Callable[..., Completed]) -> None:
    done = script(
        f"""{PRELUDE}
module = emu.Module(0, {EMPTY!r})
for _ in range(100):
    module.launch((1, 1, 1), b"")
emu.shutdown()
{TELL}"""
    )
    assert done.ok, done.stderr
    *records, lost = json.loads(done.stdout)
    assert len(records) == 101 and lost == 0


def test_a_block_has_the_commands_that_were_submitted_in_it(
    script: Callable[..., Completed],
) -> None:
    """Not the ones of before, although the device is still busy with them when the block begins."""
    done = script(
        """
import emu_runtime as emu

device = emu.Device(0)
address = device.alloc(1 << 28)
for _ in range(4):
    device.fill(address, 1, 1 << 28)
with emu.record_activity() as records:
    device.fill(address, 2, 4096)
print([record.bytes for record in records])
"""
    )
    assert done.ok, done.stderr
    assert done.stdout == "[4096]\n"
