"""Device programs that several tests use."""

from __future__ import annotations

import array

# Does nothing, at the least cost.
EMPTY = """\
.program empty
.lanes 64
.args 0
  exit
"""

# Takes `rounds` x 4096 exponentials of time, then writes 1 (i32) at `address`.
SLOW = """\
.program slow
.lanes 4096
.args 16
  arg.i64 s0, 0
  arg.i64 s1, 8
  const.f32 v0, 0.5
  loop s2, s1
    exp.f32 v1, v0
  end
  const.i32 s3, 1
  sstore.i32 s3, s0
  exit
"""

# Writes an i32 at `address`.
WRITE = """\
.program write
.lanes 64
.args 16
  arg.i64 s0, 0
  arg.i32 s1, 8
  sstore.i32 s1, s0
  exit
"""


def arguments(*values: int) -> bytes:
    return array.array("q", values).tobytes()
