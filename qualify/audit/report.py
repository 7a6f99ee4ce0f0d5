"""The audit of wheels, one or a set: facts judged, and what policy accepts set apart."""

from __future__ import annotations

import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from qualify.audit import (
    judge_archive,
    judge_closure,
    judge_content,
    judge_elf,
    judge_extension,
    judge_metadata,
    judge_owners,
    judge_record,
    together,
    wheel,
)
from qualify.audit.finding import Finding
from qualify.audit.policy import Audit, matches
from qualify.errors import InputError

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
LONGEST = 2000
"""Characters of what was found that are told."""


class Excused(msgspec.Struct, frozen=True):
    finding: Finding
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is the file's as it was given; the findings have its name."""

    path: str
    members: int
    binaries: int
    findings: tuple[Finding, ...]
    accepted: tuple[Excused, ...]


def audit(path: Path, policy: Audit) -> Report:
    """A wheel by itself. Raises OSError where the file can't be read, InputError
    where it is none; a bad wheel is a value."""
    facts = _read(path, policy)
    found = (
        *_of_each(facts, policy),
        *together.judge_requirements_of(facts, policy),
        *judge_owners.shadowed([facts]),
        *judge_closure.judge([facts], policy),
    )
    return _report(path, facts, found, policy)


def audit_together(
    paths: Sequence[Path],
    policy: Audit,
    *,
    beside: Sequence[Path] = (),
    reading: Callable[[Path], None] = lambda path: None,
) -> list[Report]:
    """Wheels that are installed together, and with those `beside`, which are not judged.

    What two wheels do to each other is told of the later one; those beside come first. `reading`
    is called before each file is read. Raises InputError for two files of one name, and OSError.
    """
    names = Counter(path.name for path in (*beside, *paths))
    if double := [name for name, count in names.items() if count > 1]:
        raise InputError("a set of wheels", expected="files of different names", got=double[0])
    facts = []
    for path in (*beside, *paths):
        reading(path)
        facts.append(_read(path, policy))
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in together.judge(facts, policy):
        found[finding.wheel].append(finding)
    return [
        _report(path, each, (*_of_each(each, policy), *found[each.name]), policy)
        for path, each in zip(paths, facts[len(beside) :], strict=True)
    ]


def _read(path: Path, policy: Audit) -> wheel.Wheel:
    if not stat.S_ISREG(mode := path.stat().st_mode):
        raise InputError(
            f"{path} is not a wheel",
            expected="a regular file, which can be read at any place",
            got=KINDS.get(stat.S_IFMT(mode), "something else"),
            mend="Write what comes through a pipe into a file first",
        )
    return wheel.read(path, policy)


def _of_each(facts: wheel.Wheel, policy: Audit) -> Iterator[Finding]:
    yield from judge_archive.judge(facts)
    yield from judge_metadata.judge(facts)
    yield from judge_record.judge(facts)
    yield from judge_content.judge(facts, policy)
    yield from judge_elf.judge(facts, policy)
    yield from judge_extension.judge(facts)


def _report(path: Path, facts: wheel.Wheel, found: Iterable[Finding], policy: Audit) -> Report:
    findings: list[Finding] = []
    accepted: list[Excused] = []
    for whole in found:
        finding = msgspec.structs.replace(whole, got=whole.got[:LONGEST])
        if reason := _reason(finding, policy):
            accepted.append(Excused(finding, reason))
        else:
            findings.append(finding)
    return Report(
        path=wheel.told(str(path)),
        members=len(facts.archive.members),
        binaries=len(facts.binaries),
        findings=tuple(findings),
        accepted=tuple(accepted),
    )


def _reason(finding: Finding, policy: Audit) -> str:
    for one in policy.accepted:
        if (
            matches(finding.id, (one.finding,))
            and matches(finding.wheel, (one.wheel,))
            and matches(finding.member, (one.member,))
        ):
            return one.reason
    return ""
