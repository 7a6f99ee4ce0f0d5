"""Facts of x86-64 code that runs as soon as a file is loaded: does it ask the processor first?

What is followed is what runs for certain: from each function that a loader calls (DT_INIT,
DT_INIT_ARRAY) and Python calls (PyInit_*), instruction by instruction into jumps and calls within
the file, up to the first branch that may go either way, look at the processor (cpuid, xgetbv), or
return of the function. What lies behind a branch may never run, so that nothing is said of it.
"""

from __future__ import annotations

import functools
import re

import capstone
import msgspec

from qualify.audit.elf import EXECUTE, LOAD, Bytes, Elf
from qualify.audit.relocations import Relocations

EXTENSIONS: tuple[str, ...] = ("sse3", "ssse3", "sse41", "sse42", "sse4a", "avx", "avx2", "avx512")
EXTENSIONS += ("f16c", "fma", "fma4", "xop", "bmi", "bmi2", "tbm", "adx", "aes", "pclmul", "sha")
"""Past what each x86-64 has (the psABI's baseline), by capstone's names. Not what an older
processor runs as something harmless, as compilers know: tzcnt, which is `rep bsf` there."""
BY_NAME = {"popcnt": "popcnt"}
HARMLESS = ("tzcnt",)
QUESTIONS = ("cpuid", "xgetbv")
ENDS = ("int", "iret", "ud", "hlt", "loop", "syscall", "sysret")
RARE = re.compile(
    rb"^[\xc4\xc5\x62\x8f]|\x0f[\x12\x16\x2b\x38\x3a\x78\x79\x7c\x7d\xb8-\xbd\xd0\xf0]", re.S
)
"""Encodings that may be of an extension: VEX, EVEX, XOP, the maps 0F38 and 0F3A, and of the map 0F
the few that were added. All others need no second look, which takes twenty times as long."""
MOST_STARTS, MOST_INSTRUCTIONS, DEEPEST = 16, 64, 4
"""Functions that are followed of a file, instructions of each, and calls into one another."""
WINDOW = 64
"""Bytes that are decoded at a time: most functions branch soon."""


class Extension(msgspec.Struct, frozen=True):
    """`offset` is that of the instruction."""

    name: str
    instruction: str
    offset: int


def read(data: Bytes, facts: Elf, moved: Relocations) -> Extension | None:
    """The first instruction past the baseline that runs for certain at load."""
    if facts.machine != "x86_64":
        return None
    walk = _Walk(data, facts)
    for start in (*facts.modules, *moved.starts)[:MOST_STARTS]:
        walk.left = MOST_INSTRUCTIONS
        if walk.follow(start, 0) and walk.found:
            return walk.found
    return None


class _Walk:
    def __init__(self, data: Bytes, facts: Elf) -> None:
        self.data = data
        self.code = [s for s in facts.of(LOAD) if s.flags & EXECUTE]
        self.facts = facts
        self.left = 0
        self.found: Extension | None = None

    def follow(self, address: int, depth: int) -> bool:
        """Whether it is over: found, or nothing after it is certain."""
        while (jump := self._straight(address, depth)) is not None:
            if jump < 0:
                return False
            address = jump
        return True

    def _straight(self, address: int, depth: int) -> int | None:
        """Where it goes on after `WINDOW` bytes or a jump, -1 where it returns, None at the end."""
        code, end = self._code(address), address
        for at, size, mnemonic, operands in _decoder(False).disasm_lite(code, address):
            end = at + size
            self.left -= 1
            word = mnemonic.rpartition(" ")[2]  # after a prefix
            if word in QUESTIONS or self.left < 0:
                return None
            bytes_ = code[at - address : end - address]
            if RARE.search(bytes_) and (found := self._extension(bytes_, at)):
                self.found = found
                return None
            target = int(operands, 16) if operands.startswith("0x") else None
            if word.startswith("ret"):
                return -1
            if word == "jmp":
                # through an entry of a table (a PLT) it is in another file, which returns
                return -1 if target is None and "[rip" in operands else target
            if word[0] == "j" or word.startswith(ENDS):
                return None
            if word != "call" or target is None or depth == DEEPEST:
                continue
            if self.follow(target, depth + 1):
                return None
        return end if end > address else None

    def _code(self, address: int) -> bytes:
        for segment in self.code:
            if segment.address <= address < segment.address + segment.size:
                at = self.facts.place(address)
                return bytes(self.data[at : min(at + WINDOW, segment.offset + segment.size)])
        return b""

    def _extension(self, code: bytes, address: int) -> Extension | None:
        (each,) = _decoder(True).disasm(code, address)
        groups = [str(each.group_name(group)) for group in each.groups]
        name = BY_NAME.get(each.mnemonic) or next((g for g in groups if g in EXTENSIONS), "")
        if not name or each.mnemonic in HARMLESS:
            return None
        return Extension(name, f"{each.mnemonic} {each.op_str}", self.facts.place(address))


@functools.cache
def _decoder(detail: bool) -> capstone.Cs:
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = detail
    return decoder
