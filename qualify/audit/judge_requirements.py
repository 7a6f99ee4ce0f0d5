"""Findings of wheels that are to be installed together: can an installer do it, and where?"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from qualify.audit.environment import Environment
from qualify.audit.finding import Finding
from qualify.audit.wheel import Wheel, file_name, metadata

Said = Mapping[str, Sequence[tuple[int, Requirement]]]
"""What each wheel requires, by its name, with lines."""


DEEPEST = 16
"""Extras that ask for extras, one after the other, as far as they are followed."""


class Wish(msgspec.Struct, frozen=True):
    """What a wheel requires in an environment."""

    wheel: Wheel
    line: int
    requirement: Requirement

    @property
    def distribution(self) -> str:
        return canonicalize_name(self.requirement.name)

    def __str__(self) -> str:
        extras = f"[{','.join(sorted(self.requirement.extras))}]" if self.requirement.extras else ""
        return f"{self.distribution}{extras}{self.requirement.specifier}"

    def at(self, id: str, got: str) -> Finding:
        return Finding(
            id=id,
            wheel=self.wheel.name,
            member=self.wheel.dist_info("METADATA"),
            line=self.line,
            got=got,
        )


def judge(wheels: list[Wheel], environment: Environment, said: Said) -> Iterator[Finding]:
    """Of wheels that are of one distribution each."""
    here = {name[0]: wheel for wheel in wheels if (name := file_name(wheel))}
    outside: defaultdict[str, list[Wish]] = defaultdict(list)
    for wish in _wishes(here, environment, said):
        given = here.get(wish.distribution)
        if given is None:
            outside[wish.distribution].append(wish)
            continue
        name = file_name(given)
        if name and not wish.requirement.specifier.contains(name[1], prereleases=True):
            yield wish.at("pins-conflict", f"{wish}; {given.name} is of version {name[1]}")
        known = {canonicalize_name(each.value) for each in metadata(given).all("provides-extra")}
        for extra in sorted({canonicalize_name(each) for each in wish.requirement.extras} - known):
            yield wish.at("extra-missing", f"{wish}; {given.name} has no extra {extra}")
    for several in outside.values():
        yield from _together(several)


def _together(several: list[Wish]) -> Iterator[Finding]:
    """The first that no version can satisfy beside those before it."""
    if not _conflict(several):
        return
    number = bisect.bisect_left(
        range(len(several)), True, key=lambda n: _conflict(several[: n + 1])
    )
    before = ", ".join(f"{each} of {each.wheel.name}" for each in several[:number])
    wish = several[number]
    yield wish.at("pins-conflict", f"{wish} beside {before or 'nothing'}")


def _conflict(several: list[Wish]) -> bool:
    specifiers = (str(wish.requirement.specifier) for wish in several)
    return SpecifierSet(",".join(filter(None, specifiers))).is_unsatisfiable()


def _wishes(here: dict[str, Wheel], environment: Environment, said: Said) -> list[Wish]:
    """With those of the extras that wheels of the set ask for of each other."""
    markers = environment.markers()
    extras: defaultdict[str, set[str]] = defaultdict(lambda: {""})
    found: dict[tuple[str, int], Wish] = {}
    for _ in range(DEEPEST):
        before = len(found)
        for distribution, wheel in here.items():
            for line, requirement in said[wheel.name]:
                marker = requirement.marker
                if marker is None or any(
                    marker.evaluate({**markers, "extra": extra}) for extra in extras[distribution]
                ):
                    wish = found.setdefault((wheel.name, line), Wish(wheel, line, requirement))
                    names = map(canonicalize_name, requirement.extras)
                    extras[wish.distribution].update(names)
        if before == len(found):
            break
    return list(found.values())
