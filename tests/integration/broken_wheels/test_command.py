"""`qualify audit` as its user meets it: status, tables, JSON, SARIF, what a finding means."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from broken_wheels.compiler import stub
from broken_wheels.defect import TREE, text
from broken_wheels.good import compiled, pure, renamed
from qualify.audit.finding import kinds
from qualify.process import Completed, run


def audit(*words: str | Path, tree: Path = TREE) -> Completed:
    argv = [sys.executable, "-m", "qualify", "audit", "--tree", tree, *words]
    return run(argv, cwd=TREE, timeout=120)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good").mkdir()
    return pure().write(tmp_path / "good")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    (tmp_path / "a bad one").mkdir()
    return text("METADATA", "Name: small", "Name: other")().write(tmp_path / "a bad one")


def test_nothing_found(good: Path) -> None:
    done = audit(good)
    assert done.status == 0, done
    assert done.stdout == f"{good.name}: no findings in 7 members, 0 of them compiled\n"


def test_found(good: Path, bad: Path) -> None:
    done = audit(good, bad)
    assert done.status == 1, done
    kind = kinds()["metadata-name"]
    for part in ("metadata-name", "METADATA line 2", "other", kind.wrong, kind.seen, kind.mend):
        assert part in done.stdout


def test_no_file(good: Path, tmp_path: Path) -> None:
    done = audit(good, tmp_path / "none.whl")
    assert done.status == 2
    assert "none.whl" in done.stderr and "Traceback" not in done.stderr


def test_json(good: Path, bad: Path) -> None:
    done = audit("--json", good, bad)
    assert done.status == 1
    first, second = json.loads(done.stdout)
    assert first == {"path": str(good), "members": 7, "binaries": 0, "findings": [], "accepted": []}
    (finding,) = second["findings"]
    assert finding["id"] == "metadata-name" and finding["line"] == 2
    assert finding["member"] == "small-1.0.dist-info/METADATA"


def test_sarif(good: Path, bad: Path) -> None:
    """The parts that SARIF 2.1.0 requires (3.13 sarifLog, 3.14 run, 3.27 result)."""
    done = audit("--sarif", good, bad)
    assert done.status == 1
    log = json.loads(done.stdout)
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    assert driver["name"]
    (result,) = one["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "metadata-name"
    assert result["level"] == "error"
    assert result["message"]["text"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == quote(bad.as_posix())
    (member,) = result["relatedLocations"]
    assert member["physicalLocation"]["region"] == {"startLine": 2}
    nested = one["artifacts"][member["physicalLocation"]["artifactLocation"]["index"]]
    assert nested["location"]["uri"] == "small-1.0.dist-info/METADATA"
    assert one["artifacts"][nested["parentIndex"]]["location"]["uri"] == quote(bad.as_posix())


def test_a_byte_of_the_wheel_is_told_from_one_of_a_member(good: Path) -> None:
    """Where the archive is wrong about a member, the place is in the wheel."""
    data = good.read_bytes()
    entry = data.rindex(b"PK\1\2")
    good.write_bytes(data[: entry + 16] + bytes(4) + data[entry + 20 :])  # its checksum
    (wheel,) = json.loads(audit("--json", good).stdout)
    (found,) = (each for each in wheel["findings"] if each["id"] == "zip-header-differs")
    assert found["offset"] == entry and found["member"]
    assert f"byte {entry} of the wheel" in " ".join(audit(good).stdout.split())
    (one,) = json.loads(audit("--sarif", good).stdout)["runs"]
    (result,) = (each for each in one["results"] if each["ruleId"] == "zip-header-differs")
    assert result["locations"][0]["physicalLocation"]["region"] == {"byteOffset": entry}
    assert "region" not in result["relatedLocations"][0]["physicalLocation"]


def test_explain() -> None:
    done = audit("--explain", "execstack")
    assert done.status == 0
    assert kinds()["execstack"].mend in done.stdout
    unknown = audit("--explain", "nothing")
    assert unknown.status == 11 and "execstack" in unknown.stderr
    assert audit("--explain", "").status == 11  # an empty variable of a script


@pytest.mark.parametrize("form", ["--json", "--sarif", "--together"])
def test_a_full_disk_is_no_finding(good: Path, form: str) -> None:
    words = f"{sys.executable} -m qualify audit --tree {TREE} {form} {shlex.quote(str(good))}"
    done = run(["sh", "-c", f"{words} > /dev/full"], cwd=TREE, timeout=120)
    assert done.status == 12 and "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_form_at_a_time(good: Path) -> None:
    done = audit("--json", "--sarif", good)
    assert done.status == 11 and "expected one of them, got both" in done.stderr


def test_a_name_that_is_no_text(good: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(good.parent) + b"/bad\xff-1.0-py3-none-any.whl"))
    good.rename(path)
    for form in ("--json", "--sarif"):
        done = audit(form, path)
        assert done.status == 1, done
        assert "bad\\\\xff" in done.stdout or "bad%5Cxff" in done.stdout


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """One that installs a file of `good`, too."""
    made = renamed(pure(), "other")
    made.entries["small/data.txt"] = b"other"
    return made.write(tmp_path)


def test_each_by_itself_or_together(good: Path, other: Path) -> None:
    assert audit(good, other).status == 0
    for words in (("--together", good, other), ("--beside", good, other)):
        done = audit(*words)
        assert done.status == 1, done
        assert "two-owners" in done.stdout and good.name in done.stdout
    reports = json.loads(audit("--json", "--beside", good, other).stdout)
    assert [report["path"] for report in reports] == [str(other)]


def test_a_set_in_sarif_points_at_the_later_wheel(good: Path, other: Path) -> None:
    (one,) = json.loads(audit("--sarif", "--together", good, other).stdout)["runs"]
    (result,) = one["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == quote(other.as_posix())


def test_a_set_of_nothing_is_refused(good: Path) -> None:
    done = audit("--beside", good)
    assert done.status == 11 and "the wheels of the set" in done.stderr


def test_two_files_of_one_name_are_no_set(good: Path, tmp_path: Path) -> None:
    done = audit("--together", good, pure().write(tmp_path))
    assert done.status == 11 and "different names" in done.stderr


def test_a_baseline_is_extended_and_then_kept(tmp_path: Path) -> None:
    """With a promise of policy that says nothing else of the wheel."""
    shutil.copytree(TREE / "matrix", tmp_path / "matrix")
    policy = tmp_path / "matrix" / "policy.toml"
    policy.write_text(
        policy.read_text() + '[[audit.wheels]]\nname = "small"\nlargest_bytes = 90000\n'
    )
    wheel = compiled(stub("libadd.so", "add")).write(tmp_path)
    assert "export-unlisted" in audit(wheel, tree=tmp_path).stdout
    done = audit("--write-baseline", wheel, tree=tmp_path)
    assert (done.status, done.stdout) == (0, "small/_native.so: added add\n")
    assert audit(wheel, tree=tmp_path).status == 0
    assert "nothing to add" in audit("--write-baseline", wheel, tree=tmp_path).stdout
    compiled(stub("libadd.so", "sum")).write(tmp_path)
    assert "export-missing" in audit(wheel, tree=tmp_path).stdout


def test_accepted_with_a_reason(bad: Path, tmp_path: Path) -> None:
    shutil.copytree(TREE / "matrix", tmp_path / "matrix")
    policy = tmp_path / "matrix" / "policy.toml"
    accepted = (
        '[[audit.accepted]]\nfinding = "metadata-name"\nwheel = "small-*"\nreason = "renamed"\n'
    )
    policy.write_text(policy.read_text() + accepted)
    done = audit(bad, tree=tmp_path)
    assert done.status == 0
    assert "accepted metadata-name" in done.stdout and "renamed" in done.stdout
    policy.write_text(policy.read_text().replace('"small-*"', '"other-*"'))
    assert audit(bad, tree=tmp_path).status == 1


def test_a_policy_with_a_slip_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(TREE / "matrix", tmp_path / "matrix")
    policy = tmp_path / "matrix" / "policy.toml"
    policy.write_text(policy.read_text().replace("ratio_above", "ratio_over"))
    done = audit(good, tree=tmp_path)
    assert done.status == 11 and "ratio_over" in done.stderr
    policy.write_text('claim_kinds = ["focused test"]\n')
    assert "a table `audit`" in audit(good, tree=tmp_path).stderr
