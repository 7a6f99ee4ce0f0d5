"""Findings of wheels that are installed together, in each environment that they are for."""

from __future__ import annotations

from collections.abc import Iterator

from qualify.audit import environment, judge_closure, judge_owners, judge_requirements
from qualify.audit.environment import Environment
from qualify.audit.finding import Finding
from qualify.audit.policy import Audit
from qualify.audit.wheel import Wheel, file_name, requirements


def judge(wheels: list[Wheel], audit: Audit) -> Iterator[Finding]:
    """Each once, however many environments it is in."""
    told: set[Finding] = set()
    for finding in (*_alone(wheels), *_served(wheels, audit)):
        if finding not in told:
            told.add(finding)
            yield finding


def judge_requirements_of(wheel: Wheel, audit: Audit) -> Iterator[Finding]:
    """What a wheel by itself requires, and no install can give."""
    told: set[Finding] = set()
    said = {wheel.name: list(requirements(wheel))}
    for each in environment.of_set([wheel], audit.pythons):
        taken, _ = environment.selected([wheel], each)
        for finding in judge_requirements.judge(taken, each, said):
            if finding not in told:
                told.add(finding)
                yield finding


def _alone(wheels: list[Wheel]) -> Iterator[Finding]:
    """Two versions of one distribution: an installer takes one."""
    first: dict[str, Wheel] = {}
    for wheel in wheels:
        if name := file_name(wheel):
            before = file_name(first.setdefault(name[0], wheel))
            if before and before[1] != name[1]:
                got = f"{name[0]} {name[1]}; {first[name[0]].name} is of it too"
                yield Finding(id="distribution-twice", wheel=wheel.name, got=got)


def _served(wheels: list[Wheel], audit: Audit) -> Iterator[Finding]:
    lacking: dict[Environment, list[Wheel]] = {}
    closures: set[tuple[str, ...]] = set()
    environments = environment.of_set(wheels, audit.pythons)
    said = {wheel.name: list(requirements(wheel)) for wheel in wheels}
    for each in environments:
        taken, absent = environment.selected(wheels, each)
        if absent:
            lacking[each] = absent
            continue
        yield from judge_requirements.judge(taken, each, said)
        names = tuple(wheel.name for wheel in taken)
        if names not in closures:  # of the same files, all but the requirements is the same
            closures.add(names)
            yield from judge_owners.judge(taken)
            yield from judge_owners.shadowed(taken)
            yield from judge_closure.judge(taken, audit)
    if len(lacking) == len(environments):
        for wheel in {w.name: w for several in lacking.values() for w in several}.values():
            where = [each.name for each, several in lacking.items() if wheel in several]
            yield Finding(id="set-unserved", wheel=wheel.name, got=f"not for {', '.join(where)}")
