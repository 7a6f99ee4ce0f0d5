"""One client of the load test: `load_client.py SEED COMMANDS` on device 0.

Random commands on two streams change buffers of the device, each beside a model of it here; what is
read back has to equal the model. A line with the number of commands so far is printed 20 times. It
holds what it has until its standard input ends.
"""

from __future__ import annotations

import array
import random
import sys

import emu_runtime as emu

WORDS = 256
BYTES = 4 * WORDS
MASK = 2**32 - 1
REPORTS = 20

# word[i] = word[i] * multiply + add, i32 and wrapping.
AFFINE = f"""\
.program affine
.lanes {WORDS}
.args 24
  arg.i64 s0, 0          ; words
  arg.i32 s1, 8          ; multiply
  arg.i32 s2, 16         ; add
  load.i32 v0, s0
  mul.i32 v0, v0, s1
  add.i32 v0, v0, s2
  store.i32 v0, s0
  exit
"""


class Buffer:
    """Word i on the device is `start[i]` * `multiply` + `add`: a launch costs the model no loop."""

    def __init__(self, device: emu.Device, source: random.Random) -> None:
        self.device = device
        self.address = device.alloc(BYTES)
        self.write(source)
        device.synchronize()  # written on the default stream, and used on others

    def write(self, source: random.Random, stream: emu.Stream | None = None) -> None:
        self.start = array.array("I", source.randbytes(BYTES))
        self.multiply, self.add = 1, 0
        self.device.write(self.address, self.start.tobytes(), stream)

    def fill(self, value: int, stream: emu.Stream) -> None:
        self.start = array.array("I", bytes([value]) * BYTES)
        self.multiply, self.add = 1, 0
        self.device.fill(self.address, value, BYTES, stream)

    def affine(self, module: emu.Module, multiply: int, add: int, stream: emu.Stream) -> None:
        self.multiply = self.multiply * multiply & MASK
        self.add = (self.add * multiply + add) & MASK
        module.launch((1, 1, 1), array.array("q", (self.address, multiply, add)).tobytes(), stream)

    def copy_from(self, other: Buffer, stream: emu.Stream) -> None:
        self.start, self.multiply, self.add = other.start, other.multiply, other.add
        self.device.copy(self.address, other.address, BYTES, stream)

    def check(self, stream: emu.Stream) -> None:
        got = array.array("I", self.device.read(self.address, BYTES, stream))
        for index, word in enumerate(self.start):
            expected = (word * self.multiply + self.add) & MASK
            if got[index] != expected:
                sys.exit(f"word {index}: expected {expected:#010x}, got {got[index]:#010x}")


def main(seed: int, commands: int) -> None:
    source = random.Random(seed)
    device = emu.Device(0)
    module = emu.Module(0, AFFINE)
    streams = [emu.Stream(0), emu.Stream(0, priority=1)]
    buffers = [[Buffer(device, source) for _ in range(3)] for _ in streams]
    done = reported = 0
    while done < commands:
        side = source.randrange(2)
        stream, own = streams[side], buffers[side]
        target = source.choice(own)
        kind = source.random()
        if kind < 0.70:
            target.affine(module, source.getrandbits(31) | 1, source.getrandbits(31), stream)
        elif kind < 0.80:
            target.fill(source.getrandbits(8), stream)
        elif kind < 0.90:
            target.copy_from(source.choice(own), stream)
        elif kind < 0.93:  # from the other stream, which then waits until it was taken
            for first, second in ((streams[1 - side], stream), (stream, streams[1 - side])):
                event = emu.Event(0)
                event.record(first)
                second.wait_event(event)
                if second is stream:
                    target.copy_from(source.choice(buffers[1 - side]), stream)
        elif kind < 0.96:
            target.write(source, stream)
        elif kind < 0.99:
            target.check(stream)
        else:  # its memory goes to the cache and comes back, or is another's
            stream.synchronize()
            device.free(target.address)
            own[own.index(target)] = Buffer(device, source)
        done += 1
        if done * REPORTS // commands > reported:
            reported = done * REPORTS // commands
            print(done, flush=True)
    for stream, own in zip(streams, buffers, strict=True):
        for buffer in own:
            buffer.check(stream)
    sys.stdin.read()  # one that is to be killed is not gone before


main(int(sys.argv[1]), int(sys.argv[2]))
