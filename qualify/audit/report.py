"""The audit of one wheel: its facts judged, and what policy accepts set apart."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from qualify.audit import (
    judge_archive,
    judge_content,
    judge_elf,
    judge_metadata,
    judge_record,
    wheel,
)
from qualify.audit.finding import Finding
from qualify.audit.policy import Audit, matches

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
    """Raises OSError where the file can't be read; a wheel that is bad is a value."""
    facts = wheel.read(path, policy)
    found = itertools.chain(
        judge_archive.judge(facts),
        judge_metadata.judge(facts),
        judge_record.judge(facts),
        judge_content.judge(facts, policy),
        judge_elf.judge(facts, policy),
    )
    findings: list[Finding] = []
    accepted: list[Excused] = []
    for whole in found:
        finding = msgspec.structs.replace(whole, got=whole.got[:LONGEST])
        if reason := _reason(finding, policy):
            accepted.append(Excused(finding, reason))
        else:
            findings.append(finding)
    return Report(
        path=str(path),
        members=len(facts.archive.members),
        binaries=len(facts.binaries),
        findings=tuple(findings),
        accepted=tuple(accepted),
    )


def _reason(finding: Finding, policy: Audit) -> str:
    for one in policy.accepted:
        if (
            one.finding == finding.id
            and matches(finding.wheel, (one.wheel,))
            and matches(finding.member, (one.member,))
        ):
            return one.reason
    return ""
