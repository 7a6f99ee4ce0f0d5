"""All facts of a wheel; what cannot be read is named, and the rest is read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from broken_wheels.compiler import ADD, library
from broken_wheels.good import FOLDER, compiled, pure, row

from audit.facts import AUDIT, facts_of
from qualify.audit import wheel
from qualify.audit.archive import Limits


def limited(**limits: int) -> wheel.Wheel:
    kept = msgspec.structs.asdict(AUDIT.limits)
    audit = msgspec.structs.replace(AUDIT, limits=Limits(**{**kept, **limits}))
    return facts_of(pure(), audit)


def test_a_good_wheel() -> None:
    facts = facts_of(pure())
    assert facts.dist_infos == (FOLDER,)
    assert facts.unread == () and facts.binaries == {}
    assert (facts.text("METADATA") or "").startswith("Metadata-Version")
    assert facts.text("nothing") is None
    assert len(facts.contents) == len(facts.files) == 7


def test_binaries_are_known_by_their_bytes_and_not_by_their_names() -> None:
    made = compiled(library(ADD, "-Wl,--build-id=sha1"), "small/data.bin")
    made.entries["small/fake.so"] = b"no ELF file"
    facts = facts_of(made)
    assert list(facts.binaries) == ["small/data.bin"]
    found = facts.binaries["small/data.bin"]
    assert found.elf is not None and found.elf.build_id and found.damage is None
    assert found.relocations.data


def test_a_damaged_binary_has_no_facts() -> None:
    facts = facts_of(compiled(library()[:3000]))
    found = facts.binaries["small/_native.so"]
    assert found.elf is None and found.damage is not None


def test_what_is_past_a_limit_is_named_and_the_rest_is_read() -> None:
    facts = limited(text_bytes=100)
    assert facts.archive.flaws  # its directory is longer than that, too
    small = limited(unpacked_bytes=1_100)
    assert [flaw.id for flaw in small.unread] == ["zip-bomb"]
    assert "small/__init__.py" in {
        m.name for m in small.archive.members if m.entry in small.contents
    }


def test_a_text_that_is_no_utf_8() -> None:
    made = pure()
    made.entries[f"{FOLDER}/METADATA"] = b"Name: \xff"
    facts = facts_of(made)
    assert facts.texts[f"{FOLDER}/METADATA"] is None
    assert list(wheel.requirements(facts)) == []


def test_digests_of_other_algorithms_are_made_only_where_record_has_them() -> None:
    made = pure()
    data = made.entries["small/data.txt"]
    made.record = lambda rows: [row("small/data.txt", data, "sha512"), *rows[:1]]
    assert list(facts_of(made).digests) == [("small/data.txt", "sha512")]
    assert facts_of(pure()).digests == {}


def test_the_file_name() -> None:
    name = wheel.file_name(facts_of(compiled(b"")))
    assert name is not None
    assert (name[0], str(name[1]), {tag.platform for tag in name[3]}) == (
        *("small", "1.0", {"manylinux_2_28_x86_64"}),
    )
    odd = pure()
    odd.name = "small-1.0.whl"
    assert wheel.file_name(facts_of(odd)) is None


def test_requirements_have_their_lines_and_bad_ones_none() -> None:
    made = pure()
    made.swap("METADATA", "Requires-Dist: packaging>=24", "Requires-Dist: packaging=>24")
    lines = [(line, requirement.name) for line, requirement in wheel.requirements(facts_of(made))]
    assert lines == [(6, "rich")]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        wheel.read(tmp_path / "none-1.0-py3-none-any.whl", AUDIT)
