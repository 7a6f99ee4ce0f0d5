"""The symbols that our libraries promise: matrix/exports.toml, read beside the policy.

It only grows. A symbol or version in it that is gone is a finding until it is back or somebody
takes the promise back by hand; a new one is a finding until it is written there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from qualify.audit import wheel
from qualify.audit.judge_elf import exported
from qualify.audit.policy import Audit, Exports
from qualify.audit.wheel import Wheel, file_name
from qualify.errors import InputError
from qualify.matrix import Policy, load

HEADER = """\
# What each of our libraries defines for others: symbol, or symbol@version. It is what was agreed,
# and from the first release on a promise: `qualify audit --write-baseline` adds what is new, and
# takes nothing out.
"""


def read(tree: Path) -> Audit:
    """What wheels may hold, with the exports. Raises InputError."""
    path = tree / "matrix" / "policy.toml"
    policy = load(path, Policy).audit
    if policy is None:
        raise InputError(str(path), expected="a table `audit`", got="none")
    exports = path_of(tree)
    listed = load(exports, Exports) if exports.exists() else {}
    return msgspec.structs.replace(policy, exports=listed)


def path_of(tree: Path) -> Path:
    return tree / "matrix" / "exports.toml"


def extend(tree: Path, audit: Audit, paths: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Write what libraries of promised wheels export beyond the list, and return it by member.

    Raises OSError; a file that is no such wheel adds nothing.
    """
    new = grown(audit, [wheel.read(path, audit) for path in paths])
    added: dict[str, tuple[str, ...]] = {}
    for name, members in new.items():
        for member, symbols in members.items():
            old = set(audit.exports.get(name, {}).get(member, ()))
            if more := tuple(symbol for symbol in symbols if symbol not in old):
                added[member] = more
    if added:
        write(path_of(tree), new)
    return added


def grown(audit: Audit, wheels: Iterable[Wheel]) -> Exports:
    """The exports with what libraries of promised wheels have beyond them."""
    found = {name: dict(members) for name, members in audit.exports.items()}
    for each in wheels:
        name = file_name(each)
        if name is None or audit.promise(name[0]) is None:
            continue
        members = found.setdefault(name[0], {})
        for member, binary in each.binaries.items():
            if binary.elf and binary.elf.soname and not binary.elf.interpreter:
                symbols = exported(binary.elf) | set(members.get(member, ()))
                members[member] = tuple(sorted(symbols))
    return found


def write(path: Path, exports: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    """As a person would write it, so that a change is one line."""
    lines = [HEADER]
    for name, members in sorted(exports.items()):
        lines.append(f"\n[{name}]\n")
        for member, symbols in sorted(members.items()):
            listed = "".join(f"  {json.dumps(symbol)},\n" for symbol in symbols)
            lines.append(f"{json.dumps(member)} = [\n{listed}]\n")
    path.write_text("".join(lines), encoding="utf-8")
