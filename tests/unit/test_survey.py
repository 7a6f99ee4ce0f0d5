"""A survey agrees only where each finding is explained and each explanation has its finding."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import msgspec
import pytest

from qualify.audit.finding import Finding
from qualify.audit.policy import Audit
from qualify.errors import HostError, InputError
from qualify.matrix import Policy, load
from qualify.stage import Stages
from qualify.survey import Explained, Listed, Survey, disagreements, fetch, survey
from qualify.survey_words import page

TREE = Path(__file__).parents[2]
FILE = "small-1.0-py3-none-any.whl"


def finding(member: str = "a.so", id: str = "build-path") -> Finding:
    return Finding(id=id, wheel=FILE, member=member, got="/home/a/b.c")


def explained(count: int = 1, **more: object) -> Explained:
    words = {"finding": "build-path", "because": "an assert", "found": {FILE: count}, **more}
    return msgspec.convert(words, Explained)


def said(findings: list[Finding], explanations: list[Explained]) -> list[str]:
    return list(disagreements(FILE, tuple(findings), tuple(explanations)))


def test_each_finding_explained() -> None:
    assert said([finding(), finding("b.so")], [explained(2)]) == []
    assert said([], []) == []


@pytest.mark.parametrize(
    ("findings", "explanations", "words"),
    [
        ([finding()], [], "build-path is not explained: a.so"),
        (
            [finding()],
            [explained(finding="execstack"), explained()],
            "execstack in *: 1 explained, 0",
        ),
        ([finding()], [explained(members=["b.so"])], "build-path is not explained"),
        ([finding(), finding("b.so")], [explained(1)], "1 explained, 2 found"),
        ([finding()], [explained(2)], "2 explained, 1 found"),
        ([finding()], [explained(found={"other.whl": 1})], "build-path is not explained"),
    ],
)
def test_disagreements(findings: list[Finding], explanations: list[Explained], words: str) -> None:
    assert any(words in line for line in said(findings, explanations))


def test_the_first_reason_that_fits_has_the_finding() -> None:
    reasons = [explained(1, members=["libs/*"]), explained(1)]
    assert said([finding("libs/a.so"), finding("b.so")], reasons) == []


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"changed")
    listed = Listed(file=FILE, sha256=hashlib.sha256(b"whole").hexdigest())
    with pytest.raises(HostError, match="another file"):
        fetch(listed, tmp_path)


WHEEL = f'[[wheels]]\nfile = "{FILE}"\nsha256 = "{"0" * 64}"\n'
REASON = '[[explained]]\nfinding = "execstack"\nbecause = "a"\nfound = { "b" = 1 }\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WHEEL + REASON, "got b"),
        (WHEEL + REASON.replace("execstack", "nothing"), "got nothing"),
        (WHEEL + WHEEL, "each one once"),
        (WHEEL.replace("00", "0"), "sha256"),
        (WHEEL.replace("-py3", ""), "the name of a wheel"),
        ("wheels = []", "wheels"),
    ],
)
def test_a_list_with_a_slip_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "survey.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        load(path, Survey)


def toy(tmp_path: Path, *, ratio: float | None = None) -> tuple[Survey, Audit, Path]:
    """A list of one small wheel, kept where the survey looks, and the policy to judge it by."""
    path = tmp_path / FILE
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    policy = load(TREE / "matrix" / "policy.toml", Policy).audit
    assert policy is not None
    reason = explained(finding="dist-info-missing", because="a toy")
    listed = Survey(wheels=(Listed(file=FILE, sha256=digest, ratio=ratio),), explained=(reason,))
    return listed, policy, path


def test_a_whole_survey(tmp_path: Path) -> None:
    """Too slow for a ratio that nothing reaches, and so measured again the next time."""
    listed, policy, path = toy(tmp_path, ratio=0.01)
    stages = Stages(tmp_path / "cache")
    (done,) = survey(listed, policy, stages, keep=tmp_path, runs=1)
    assert [f.id for f in done.findings] == ["dist-info-missing"]
    (slow,) = done.disagreements
    assert "times reading it, 0.01 are allowed" in slow
    text = page([done], listed)
    assert "| dist-info-missing | 1 | small | a toy |" in text and f"| {FILE} |" in text
    assert path.exists()
    assert list(survey(listed, policy, stages, only=("other*",))) == []
    (again,) = survey(listed, policy, stages, keep=tmp_path, runs=1)
    assert again.audit_seconds != done.audit_seconds


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    """A wheel of before is not even there the next time; what is explained is asked anew."""
    listed, policy, path = toy(tmp_path)
    stages = Stages(tmp_path / "cache")
    (done,) = survey(listed, policy, stages, keep=tmp_path, runs=1)
    assert done.disagreements == ()
    path.unlink()
    unexplained = msgspec.structs.replace(listed, explained=())
    (again,) = survey(unexplained, policy, stages, keep=tmp_path, runs=1)
    assert again.audit_seconds == done.audit_seconds
    assert [said.split()[0] for said in again.disagreements] == ["dist-info-missing"]


def test_the_list_of_the_repository() -> None:
    listed = load(TREE / "matrix" / "survey.toml", Survey)
    compiled = [wheel for wheel in listed.wheels if not wheel.file.endswith("-any.whl")]
    assert len(compiled) >= 60
    assert [w.ratio for w in listed.wheels if w.file.startswith("torch-")] == [1.5, 1.5]


def test_the_page_is_of_the_list() -> None:
    """Written by another run of another list, it would say what nobody measured."""
    listed = load(TREE / "matrix" / "survey.toml", Survey)
    text = (TREE / "docs/audit-survey.md").read_text()
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if ".whl |" in line]
    assert rows == [wheel.file for wheel in listed.wheels]
    for one in listed.explained:
        assert f"| {one.finding} | {sum(one.found.values())} |" in text
        assert one.because.replace("|", "\\|") in text
