"""Facts of x86-64 code that runs as soon as a file is loaded: does it ask the processor first?

What is followed is what runs for certain: from each function that a loader calls (DT_INIT,
DT_INIT_ARRAY) and Python calls (PyInit_*), instruction by instruction into jumps and calls within
the file, up to the first branch that may go either way, look at the processor (cpuid, xgetbv), or
return of the function. What lies behind a branch may never run, so that nothing is said of it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import capstone
import msgspec
from capstone import x86

from qualify.audit.elf import EXECUTE, LOAD, Bytes, Elf
from qualify.audit.relocations import Relocations

EXTENSIONS: tuple[str, ...] = ("sse3", "ssse3", "sse41", "sse42", "sse4a", "avx", "avx2", "avx512")
EXTENSIONS += ("f16c", "fma", "fma4", "xop", "bmi", "bmi2", "tbm", "adx", "aes", "pclmul", "sha")
"""Past what each x86-64 has (the psABI's baseline), by capstone's names. Not what an older
processor runs as something harmless, as compilers know: tzcnt, which is `rep bsf` there."""
BY_NAME = {"popcnt": "popcnt"}
HARMLESS = ("tzcnt",)
QUESTIONS = (x86.X86_INS_CPUID, x86.X86_INS_XGETBV)
ENDS = ("ret", "iret", "int")
MOST_STARTS, MOST_INSTRUCTIONS, DEEPEST = 16, 64, 4
"""Functions that are followed of a file, instructions of each, and calls into one another."""
WINDOW = 512


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
        """Where it jumps to, -1 where it returns, None where it is over."""
        for each in self._instructions(address):
            self.left -= 1
            groups = [str(each.group_name(group)) for group in each.groups]
            if each.id in QUESTIONS or self.left < 0:
                return None
            if name := _extension(each.mnemonic, groups):
                text = f"{each.mnemonic} {each.op_str}"
                self.found = Extension(name, text, self.facts.place(each.address))
                return None
            if any(group in ENDS for group in groups):
                return -1 if "ret" in groups else None
            target = each.operands[0].imm if _is_direct(each) else None
            if "jump" in groups:
                return _next(each, target)
            if "call" not in groups or target is None or depth == DEEPEST:
                continue
            if self.follow(target, depth + 1):
                return None
        return None

    def _instructions(self, address: int) -> Iterator[capstone.CsInsn]:
        for segment in self.code:
            if segment.address <= address < segment.address + segment.size:
                at = self.facts.place(address)
                end = min(at + WINDOW, segment.offset + segment.size)
                return iter(_decoder().disasm(bytes(self.data[at:end]), address))
        return iter(())


def _next(jump: capstone.CsInsn, target: int | None) -> int | None:
    """What is reached through a table's entry (a PLT) is in another file, and returns."""
    if jump.id != x86.X86_INS_JMP:
        return None
    place = jump.operands[0]
    through_entry = place.type == x86.X86_OP_MEM and place.mem.base == x86.X86_REG_RIP
    return -1 if through_entry else target


def _is_direct(each: capstone.CsInsn) -> bool:
    return len(each.operands) == 1 and each.operands[0].type == x86.X86_OP_IMM


def _extension(mnemonic: str, groups: list[str]) -> str:
    if mnemonic in HARMLESS:
        return ""
    return BY_NAME.get(mnemonic) or next((g for g in groups if g in EXTENSIONS), "")


@functools.cache
def _decoder() -> capstone.Cs:
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return decoder
