"""Audits a list of others' wheels and compares what is found with what is known to be true.

The list is matrix/survey.toml: exact files, and for each finding in them a sentence on why it is
true. A finding without one, a sentence without its finding, and an audit that takes longer beside
reading the file than the list allows are disagreements. What was measured of a wheel is kept, and
stands until the audit, its policy or this file's code change: a survey that was stopped goes on.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from qualify import inspection, owner, process
from qualify.audit import report
from qualify.audit.finding import Finding, kinds
from qualify.audit.policy import Audit, matches
from qualify.content import code_of, sha256_of
from qualify.errors import HostError
from qualify.matrix import Strict, Text, no_doubles, whole, wrong
from qualify.stage import Stages
from qualify.wheelhouse import DOWNLOAD_SECONDS

CHUNK = 1 << 20
RESULT = "surveyed.json"


class Listed(Strict, frozen=True, kw_only=True):
    """One wheel. `ratio`: the most that its audit may take, in times of reading it."""

    file: Text
    sha256: Annotated[str, whole("[0-9a-f]{64}")]
    ratio: float | None = None

    def __post_init__(self) -> None:
        try:
            parse_wheel_filename(self.file)
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise ValueError(f"expected the name of a wheel, got {self.file}") from error


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
    disagreements: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        return self.audit_seconds / self.unpack_seconds


class _TooSlow(Exception):
    """Not kept, so that the next survey measures again: the machine may have been busy."""


def survey(
    listed: Survey,
    policy: Audit,
    stages: Stages,
    *,
    only: tuple[str, ...] = ("*",),
    keep: Path | None = None,
    runs: int = 3,
) -> Iterator[Surveyed]:
    """One wheel after the other, each of which is deleted after it, unless it is for `keep`."""
    wheels = [wheel for wheel in listed.wheels if matches(wheel.file, only)]
    for number, wheel in enumerate(wheels, 1):
        stages.progress(f"{number} of {len(wheels)}: {wheel.file}")
        measured = _kept(stages, wheel, policy, keep, runs)
        said = (
            *disagreements(wheel.file, measured.findings, listed.explained),
            *_slowness(wheel, measured),
        )
        yield msgspec.structs.replace(measured, disagreements=said)


def _kept(stages: Stages, wheel: Listed, policy: Audit, keep: Path | None, runs: int) -> Surveyed:
    """What an earlier survey measured of that wheel, or this one."""
    last: Surveyed | None = None

    def work(folder: Path) -> None:
        nonlocal last
        with owner.scratch(Path(tempfile.gettempdir()), "qualify-survey-") as scratch:
            path = fetch(wheel, keep or scratch)
            last = _measure(path, policy, runs)
        if any(_slowness(wheel, last)):
            raise _TooSlow
        (folder / RESULT).write_bytes(msgspec.json.encode(last))

    inputs = {
        "wheel": f"{wheel.file} {wheel.sha256}",
        "policy": msgspec.json.encode(policy).decode(),
        "code": code_of("audit", "survey"),
        "python": platform.python_version(),
        "knows": inspection.judges(),
        "runs": str(runs),
        "ratio": str(wheel.ratio),
    }
    try:
        made = stages.make("survey", inputs, work)
    except _TooSlow:
        assert last is not None
        return last
    return msgspec.json.decode((made.path / RESULT).read_bytes(), type=Surveyed)


def fetch(wheel: Listed, folder: Path) -> Path:
    """That file in `folder`, downloaded by pip if it is not there. Raises HostError otherwise.

    It was read for its digest, so that whoever reads it next finds it in memory.
    """
    path = folder / wheel.file
    if not path.is_file():
        with owner.scratch(folder, ".download-") as scratch:
            words = [sys.executable, "-I", "-m", "pip", *_download(wheel, scratch)]
            env = {**os.environ, "TMPDIR": str(scratch)}
            done = process.run(words, env=env, timeout=DOWNLOAD_SECONDS)
            came = scratch / wheel.file
            if not done.ok or not came.is_file():
                raise HostError(
                    f"pip could not download {wheel.file}",
                    expected="the file that matrix/survey.toml names",
                    got=(done.stderr.strip() or "another file or a timeout")[-800:],
                    mend="Check the network and pip's index configuration",
                )
            came.replace(path)
    if (digest := sha256_of(path)) != wheel.sha256:
        raise HostError(f"{path} is another file", expected=wheel.sha256, got=digest)
    return path


def _download(wheel: Listed, folder: Path) -> list[str]:
    name, version, _, tags = parse_wheel_filename(wheel.file)
    pinned = folder / "requirements.txt"
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


def _measure(path: Path, policy: Audit, runs: int) -> Surveyed:
    reading: list[float] = []
    auditing: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        unpack(path)
        reading.append(time.process_time() - start)
        start = time.process_time()
        done = report.audit(path, policy)
        auditing.append(time.process_time() - start)
    return Surveyed(
        file=path.name,
        bytes=path.stat().st_size,
        members=done.members,
        binaries=done.binaries,
        audit_seconds=statistics.median(auditing),
        unpack_seconds=statistics.median(reading),
        findings=done.findings,
    )


def _slowness(wheel: Listed, measured: Surveyed) -> Iterator[str]:
    if wheel.ratio is not None and measured.ratio > wheel.ratio:
        took = f"its audit takes {measured.ratio:.2f} times reading it"
        yield f"{took}, {wheel.ratio:.2f} are allowed"


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
