"""Audits a list of others' wheels and compares what is found with what is known to be true.

The list is matrix/survey.toml: exact files, and for each finding in them a sentence on why it is
true. A finding without one, a sentence without its finding, and an audit that takes longer beside
reading the file than the list allows are disagreements.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from qualify import process
from qualify.audit import report
from qualify.audit.finding import Finding, kinds
from qualify.audit.policy import Audit, matches
from qualify.content import sha256_of
from qualify.errors import HostError
from qualify.matrix import Strict, Text, no_doubles, whole, wrong
from qualify.wheelhouse import DOWNLOAD_SECONDS

CHUNK = 1 << 20


class Listed(Strict, frozen=True, kw_only=True):
    """One wheel. `ratio`: the most that its audit may take, in times of reading it."""

    file: Text
    sha256: Annotated[str, whole("[0-9a-f]{64}")]
    ratio: float | None = None


class Explained(Strict, frozen=True, kw_only=True):
    """Findings of one kind that are true for one reason: how many in which file.

    `members` are patterns; of two explanations that fit a finding the first has it.
    """

    finding: Text
    because: Text
    members: tuple[Text, ...] = ("*",)
    found: dict[str, Annotated[int, msgspec.Meta(gt=0)]]


class Survey(Strict, frozen=True, kw_only=True):
    """matrix/survey.toml."""

    wheels: Annotated[tuple[Listed, ...], msgspec.Meta(min_length=1)]
    explained: tuple[Explained, ...] = ()

    def __post_init__(self) -> None:
        no_doubles("wheels[{}].file", (wheel.file for wheel in self.wheels))
        files = {wheel.file for wheel in self.wheels}
        for number, one in enumerate(self.explained):
            if one.finding not in kinds():
                raise wrong(f"explained[{number}].finding", "the id of a finding", one.finding)
            if unknown := sorted(set(one.found) - files):
                raise wrong(f"explained[{number}].found", "files of `wheels`", unknown[0])


class Surveyed(msgspec.Struct, frozen=True, kw_only=True):
    """What one wheel showed. Seconds are of processor time, which a busy machine bends least:
    medians of runs that took turns. `unpack_seconds` is zipfile reading every member."""

    file: str
    bytes: int
    members: int
    binaries: int
    audit_seconds: float
    unpack_seconds: float
    findings: tuple[Finding, ...]
    disagreements: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.audit_seconds / self.unpack_seconds


def survey(
    listed: Survey,
    policy: Audit,
    *,
    only: tuple[str, ...] = ("*",),
    keep: Path | None = None,
    runs: int = 3,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[Surveyed]:
    """One wheel after the other, each of which is deleted after it, unless it is for `keep`."""
    wheels = [wheel for wheel in listed.wheels if matches(wheel.file, only)]
    for number, wheel in enumerate(wheels, 1):
        tell(f"{number} of {len(wheels)}: {wheel.file}")
        with tempfile.TemporaryDirectory() as scratch:
            path = fetch(wheel, keep or Path(scratch), Path(scratch))
            yield _one(path, wheel, listed.explained, policy, runs)


def fetch(wheel: Listed, folder: Path, scratch: Path) -> Path:
    """That file in `folder`, downloaded by pip if it is not there. Raises HostError otherwise.

    It was read for its digest, so that whoever reads it next finds it in memory.
    """
    path = folder / wheel.file
    if not path.is_file():
        words = [sys.executable, "-I", "-m", "pip", *_download(wheel, scratch, folder)]
        env = {**os.environ, "TMPDIR": str(scratch)}  # pip that is killed leaves what it unpacked
        done = process.run(words, env=env, timeout=DOWNLOAD_SECONDS)
        if not done.ok or not path.is_file():
            raise HostError(
                f"pip could not download {wheel.file}",
                expected="the file that matrix/survey.toml names",
                got=(done.stderr.strip() or "another file or a timeout")[-800:],
                mend="Check the network and pip's index configuration",
            )
    if (digest := sha256_of(path)) != wheel.sha256:
        raise HostError(f"{path} is another file", expected=wheel.sha256, got=digest)
    return path


def _download(wheel: Listed, scratch: Path, folder: Path) -> list[str]:
    name, version, _, tags = parse_wheel_filename(wheel.file)
    pinned = scratch / "requirements.txt"
    pinned.write_text(f"{name}=={version} --hash=sha256:{wheel.sha256}\n")
    words = ["download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    words += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder)]
    words += ["--requirement", str(pinned)]
    one = max(tags, key=lambda tag: (tag.interpreter, str(tag)))
    if one.platform != "any":
        words += _target(one)
        words += [f"--platform={platform}" for platform in sorted({t.platform for t in tags})]
    return words


def _target(tag: Tag) -> list[str]:
    """pip's words for the Python of a tag such as cp312-abi3 or py3-none."""
    kind, version = tag.interpreter[:2], tag.interpreter[2:]
    dotted = f"{version[0]}.{version[1:]}" if len(version) > 1 else version
    return [f"--implementation={kind}", f"--python-version={dotted}", f"--abi={tag.abi}"]


def _one(
    path: Path, wheel: Listed, explained: tuple[Explained, ...], policy: Audit, runs: int
) -> Surveyed:
    reading: list[float] = []
    auditing: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        unpack(path)
        reading.append(time.process_time() - start)
        start = time.process_time()
        done = report.audit(path, policy)
        auditing.append(time.process_time() - start)
    surveyed = Surveyed(
        file=wheel.file,
        bytes=path.stat().st_size,
        members=done.members,
        binaries=done.binaries,
        audit_seconds=statistics.median(auditing),
        unpack_seconds=statistics.median(reading),
        findings=done.findings,
        disagreements=tuple(disagreements(wheel.file, done.findings, explained)),
    )
    if wheel.ratio is None or surveyed.ratio <= wheel.ratio:
        return surveyed
    slow = f"its audit takes {surveyed.ratio:.2f} times reading it, {wheel.ratio:.2f} are allowed"
    return msgspec.structs.replace(surveyed, disagreements=(*surveyed.disagreements, slow))


def unpack(path: Path) -> None:
    """Reads and decompresses every member, as an installer does, and keeps nothing."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                while file.read(CHUNK):
                    pass


def disagreements(
    file: str, findings: tuple[Finding, ...], explained: tuple[Explained, ...]
) -> Iterator[str]:
    """Between what was found in a wheel and what is explained of it, in words."""
    wanted = [one for one in explained if file in one.found]
    counts: Counter[int] = Counter()
    for finding in findings:
        for number, one in enumerate(wanted):
            if one.finding == finding.id and matches(finding.member, one.members):
                counts[number] += 1
                break
        else:
            where = " ".join(filter(None, (finding.member, finding.place)))
            yield f"{finding.id} is not explained: {where}: {finding.got[:200]}"
    for number, one in enumerate(wanted):
        if counts[number] != one.found[file]:
            members = ", ".join(one.members)
            yield f"{one.finding} in {members}: {one.found[file]} explained, {counts[number]} found"
