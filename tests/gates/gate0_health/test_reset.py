"""A reset of the device ends what was, and nothing that is left of it reaches what comes after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health import programs

if TYPE_CHECKING:
    from gate0_health.serving import Node

SCRIPT = f"""
import json, struct
import emu_runtime
from emu_runtime.errors import StaleHandleError

device = emu_runtime.Device(0)
AFFINE = '''{programs.AFFINE}'''

class Things:
    def __init__(self, letter):
        self.word = device.alloc(4096)
        self.data = letter * 4096
        device.write(self.word, self.data)
        self.pinned = emu_runtime.PinnedBuffer(4096)
        self.pinned.fill_from(self.data)
        self.stream, self.event = emu_runtime.Stream(0), emu_runtime.Event(0)
        self.event.record(self.stream)
        self.module = emu_runtime.Module(0, AFFINE)

old = Things(b"o")
device.reset()
new = Things(b"n")
launch = struct.pack("<qqq", new.word, 1, 0)
uses = dict(
    read=lambda: device.read(old.word, 4096),
    read_inside=lambda: device.read(old.word + 8, 8),
    write=lambda: device.write(old.word, b"x" * 4096),
    fill=lambda: device.fill(old.word, 1, 4096),
    copy_from=lambda: device.copy(new.word, old.word, 4096),
    copy_to=lambda: device.copy(old.word, new.word, 4096),
    record=lambda: device.record(old.word, new.stream),
    synchronize=old.stream.synchronize,
    launch_on_stream=lambda: new.module.launch((1, 1, 1), launch, old.stream),
    wait_event=lambda: new.stream.wait_event(old.event),
    query_event=old.event.query,
    launch_module=lambda: old.module.launch((1, 1, 1), launch),
)
untyped = {{}}
for name, use in uses.items():
    try:
        use()
        untyped[name] = "worked"
    except StaleHandleError as error:
        if "reset" not in str(error):
            untyped[name] = str(error)
    except Exception as error:
        untyped[name] = repr(error)
frees = device.memory_stats().frees
device.free(old.word)
host = bytes(old.pinned) == old.data
old.pinned.free()
again = emu_runtime.PinnedBuffer(4096)
print(json.dumps(dict(
    untyped=untyped,
    distinct=old.word != new.word,
    freed=device.memory_stats().frees - frees,
    host=host,
    device_intact=device.read(new.word, 4096) == new.data,
    pinned_intact=bytes(new.pinned) == new.data and again.address != new.pinned.address,
)))
"""


@pytest.mark.check("gate0.reset.old_handles", obligations=["G0", "Q8"], kind="focused test")
def test_old_handles(node: Node) -> None:
    """An address or handle from before a reset works on memory that somebody else has now."""
    done = run_python(SCRIPT, env=node.env)
    assert done.status == 0, done.told
    told = json.loads(done.stdout)
    assert told == {
        "untyped": {},
        "distinct": True,
        "freed": 0,
        "host": True,
        "device_intact": True,
        "pinned_intact": True,
    }
