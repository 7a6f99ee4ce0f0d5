"""The same program gives the same bits and ticks on any number of host threads, every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from child import run_python
from gate0_health.serving import served

if TYPE_CHECKING:
    from gate0_health.serving import Configuration

THREADS = (1, 2, 4)
RUNS = 2
BLOCKS = 24
SEED = 41
# Arguments of each: x, y. A block takes 4,096 f32 of x, and y is as large as x.
HEAD = """
.program {name}
.lanes 4096
.args 16
arg.i64 s0, 0
arg.i64 s1, 8
block s2, 0
const.i64 s3, 16384
mul.i64 s3, s2, s3
add.i64 s4, s0, s3
add.i64 s5, s1, s3
load.f32 v0, s4
"""
PROGRAMS = {
    "elementwise": "sin.f32 v1, v0\nexp.f32 v1, v1\ndiv.f32 v1, v1, v0\nstore.f32 v1, s5\n",
    # Sums whose bits depend on the order, a result for each block.
    "reduction": "reduce.sum.f32 s6, v0\nscan.sum.f32 v1, v0\nadd.f32 v1, v1, s6\n"
    "store.f32 v1, s5\n",
    # All blocks add to the first element: a sum of floats, which is ordered.
    "ordered": "const.i64 v1, 0\nconst.f32 v2, 0.0\natom.add.f32 v2, s1, v1, v0\n"
    "sstore.f32 s2, s5\nconst.i64 s7, 16\nadd.i64 s5, s5, s7\nsetvl s8, s7\nstore.f32 v2, s5\n",
    # All blocks, in any order; integers commute.
    "unordered": "cvt.i64.f32 v1, v0\nlane.i64 v2\nconst.i64 s6, 8\nmul.i64 v2, v2, s6\n"
    "red.add.i64 v1, s1, v2\n",
    "matrix": "const.i64 s6, 64\nconst.i64 s7, 256\nmload.f32 m0, s4, s7, s6, s6\n"
    "mload.column.f32 m1, s4, s7, s6, s6\nmzero.f32 m2, s6, s6\nmma.f32 m2, m0, m1\n"
    "mstore.f32 m2, s5, s7\n",
    "random": "lane.i64 v1\nphilox.w0.i32 v2, s2, s2, v1\ncvtsr.bf16.f32 v3, v0, v2\n"
    "cvt.f32.bf16 v4, v3\nstore.f32 v4, s5\n",
}
SCRIPT = """
import array, hashlib, json, random, struct, sys
import emu_runtime

programs, devices, runs, blocks, seed = json.loads(sys.argv[1])
generator = random.Random(seed)
x = array.array("f", (generator.gauss(0, 100) for _ in range(4096 * blocks))).tobytes()
found = []
for index in range(devices):
    device = emu_runtime.Device(index)
    given, taken = device.alloc(len(x)), device.alloc(len(x))
    device.write(given, x)
    for _ in range(runs):
        bits, ticks = {}, {}
        for name, text in programs.items():
            module = emu_runtime.Module(index, text)
            device.fill(taken, 0, len(x))
            device.synchronize()
            with emu_runtime.record_activity(index) as records:
                module.launch((blocks, 1, 1), struct.pack("<qq", given, taken))
            (launch,) = (r for r in records if r.kind == emu_runtime.ActivityKind.LAUNCH)
            result = device.read(taken, len(x))
            assert result.count(0) < len(x), name
            bits[name], ticks[name] = hashlib.sha256(result).hexdigest(), launch.ticks
        found.append([bits, ticks])
print(json.dumps(found))
"""


@pytest.mark.check("gate0.device.deterministic", obligations=["G0", "N8"], kind="focused test")
def test_deterministic(
    configuration: Configuration, tmp_path: Path, detail: Callable[..., None]
) -> None:
    """A result, or the device's time for it, depends on the host's threads or on chance."""
    texts = {name: HEAD.format(name=name) + body + "exit\n" for name, body in PROGRAMS.items()}
    with ExitStack() as stack:
        for number, threads in enumerate(THREADS):
            options = [*configuration.options, "--threads", str(threads)]
            node = stack.enter_context(served(tmp_path, *options, number=number))
        work = json.dumps([texts, len(THREADS), RUNS, BLOCKS, SEED])
        done = run_python(SCRIPT, work, env=node.env)
    assert done.status == 0, done.told
    first, *others = json.loads(done.stdout)
    detail(seed=SEED, threads=THREADS, runs=RUNS, bits=first[0], ticks=first[1])
    print(f"{len(PROGRAMS)} programs, {RUNS} runs on each of {THREADS} threads")
    assert all(ticks > 0 for ticks in first[1].values())
    assert len(others) == len(THREADS) * RUNS - 1
    for other in others:
        assert other == first
