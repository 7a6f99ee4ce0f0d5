"""The engine in this process, for tests: assemble text, give it memory, run it, look at memory.

`Machine` wraps libmachine_c.so (machine_c.cpp), which conftest.py builds.
"""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE_SHIFT = 16
READ, WRITE = 1, 2
BASELINE, AVX2, AVX512 = 0, 1, 2
WHY_BYTES = 1024

# emu_status of driver.h, as far as a program can give it
INVALID_ARGUMENT, PAGE_FAULT, MISALIGNED, ILLEGAL_COMMAND, BUDGET = 1, 7, 8, 9, 10
CONTEXT_LOST, LAUNCH_TIMEOUT, OUT_OF_BOUNDS = 12, 17, 18

Bytes = npt.NDArray[np.uint8]


class Refused(Exception):
    """The assembler or the verifier said no; the message is its reason."""


class CFault(c.Structure):
    _fields_ = [
        ("status", c.c_int32),
        ("address", c.c_uint64),
        ("instruction", c.c_uint32),
        ("cause", c.c_char * 256),
    ]


class CCost(c.Structure):
    _fields_ = [
        ("ticks", c.c_uint64),
        ("matrix_ticks", c.c_uint64),
        ("vector_ticks", c.c_uint64),
        ("memory_ticks", c.c_uint64),
        ("busiest_matrix_ticks", c.c_uint64),
        ("busiest_vector_ticks", c.c_uint64),
        ("busiest_memory_ticks", c.c_uint64),
        ("memory_bytes", c.c_uint64),
    ]


@dataclass(frozen=True)
class Fault:
    status: int
    address: int
    instruction: int
    cause: str


@dataclass(frozen=True)
class Cost:
    ticks: int
    matrix_ticks: int
    vector_ticks: int
    memory_ticks: int
    busiest: tuple[int, int, int] = (0, 0, 0)  # matrix, vector, memory of the busiest core
    memory_bytes: int = 0


# Where the addresses of a process's contexts begin (address_bits of machine.toml): of its fourth
# one, so that who takes an address for an offset is far off; and of its first and its last.
BASE = 3 << 38
BASES = (0, BASE, (1 << 63) - (1 << 38))


class Memory:
    """An address space whose page 0 is not mapped; the rest may be read and written unless told."""

    def __init__(self, pages: int = 64, base: int = BASE) -> None:
        self.base = base
        raw = np.zeros((pages + 1) << PAGE_SHIFT, dtype=np.uint8)
        start = -raw.ctypes.data % (1 << PAGE_SHIFT)  # aligned, as the device process has it
        self.bytes: Bytes = raw[start : start + (pages << PAGE_SHIFT)]
        self.pages: Bytes = np.full(pages, READ | WRITE, dtype=np.uint8)
        self.pages[0] = 0
        self._next = 1 << PAGE_SHIFT

    def place(self, array: npt.NDArray[Any]) -> int:
        """Copy an array in and return its device address, which is 64-byte aligned."""
        start = self._next
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.bytes[start : start + raw.size] = raw
        self._next = (start + raw.size + 63) // 64 * 64
        return self.base + start

    def read(self, address: int, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        out: npt.NDArray[Any] = np.empty(count, dtype=kind)
        start = address - self.base
        out.view(np.uint8)[:] = self.bytes[start : start + out.nbytes]
        return out


class Machine:
    def __init__(self, library: Path) -> None:
        self._lib = c.CDLL(str(library))
        self._lib.machine_assemble.restype = c.c_int64
        self._lib.machine_disassemble.restype = c.c_int64
        self._lib.machine_load.restype = c.c_void_p
        self._lib.machine_pool.restype = c.c_void_p
        self._pools: dict[int, c.c_void_p] = {}
        self._out = c.create_string_buffer(
            1 << 22
        )  # one for all: zeroing it costs more than assembling

    def close(self) -> None:
        for pool in self._pools.values():
            self._lib.machine_pool_end(pool)
        self._pools.clear()

    def best_level(self) -> int:
        return int(self._lib.machine_best_level())

    def assemble(self, text: str) -> bytes:
        return self._translate(self._lib.machine_assemble, text.encode())

    def disassemble(self, binary: bytes) -> str:
        return self._translate(self._lib.machine_disassemble, binary).decode()

    def check(self, binary: bytes) -> None:
        """Load and unload: raises Refused as the verifier does."""
        self._unload(self._load(binary, BASELINE))

    def run(
        self,
        binary: bytes,
        memory: Memory,
        args: bytes = b"",
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        level: int | None = None,
        threads: int = 1,
        budget: int = 1 << 40,
        seconds: float = 600,
        cancelled: c.c_bool | None = None,
    ) -> tuple[Cost, Fault | None]:
        program = self._load(binary, self.best_level() if level is None else level)
        cost, fault = CCost(), CFault()
        try:
            good = self._lib.machine_run(
                program,
                memory.bytes.ctypes.data_as(c.c_void_p),
                c.c_uint64(memory.bytes.size),
                c.c_uint64(memory.base),
                memory.pages.ctypes.data_as(c.c_void_p),
                c.c_uint(PAGE_SHIFT),
                (c.c_uint32 * 3)(*grid),
                args,
                c.c_size_t(len(args)),
                c.c_uint64(budget),
                c.c_double(seconds),
                None if cancelled is None else c.byref(cancelled),
                self._pool(threads),
                c.byref(cost),
                c.byref(fault),
            )
        finally:
            self._unload(program)
        spent = Cost(
            cost.ticks,
            cost.matrix_ticks,
            cost.vector_ticks,
            cost.memory_ticks,
            (cost.busiest_matrix_ticks, cost.busiest_vector_ticks, cost.busiest_memory_ticks),
            cost.memory_bytes,
        )
        if good:
            return spent, None
        return spent, Fault(fault.status, fault.address, fault.instruction, fault.cause.decode())

    def _translate(self, function: Any, data: bytes) -> bytes:
        out, why = self._out, c.create_string_buffer(WHY_BYTES)
        size = c.c_size_t
        n = function(data, size(len(data)), out, size(len(out)), why, size(WHY_BYTES))
        if n < 0:
            raise Refused(why.value.decode())
        return c.string_at(out, n)

    def _load(self, binary: bytes, level: int) -> c.c_void_p:
        why = c.create_string_buffer(WHY_BYTES)
        program = self._lib.machine_load(
            binary, c.c_size_t(len(binary)), level, why, c.c_size_t(WHY_BYTES)
        )
        if not program:
            raise Refused(why.value.decode())
        return c.c_void_p(program)

    def _unload(self, program: c.c_void_p) -> None:
        self._lib.machine_unload(program)

    def _pool(self, threads: int) -> c.c_void_p:
        if threads not in self._pools:
            self._pools[threads] = c.c_void_p(self._lib.machine_pool(threads))
        return self._pools[threads]
