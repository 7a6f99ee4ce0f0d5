"""The matrix: its own files are good, and a bad one names file, line, key and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qualify import matrix
from qualify.errors import InputError
from qualify.matrix import Cells, Gates, Layer, Policy, Waivers

MATRIX = Path(__file__).parents[2] / "matrix"


def test_the_files_of_this_checkout() -> None:
    gates = matrix.load(MATRIX / "gates.toml", Gates)
    assert [tier.name for tier in gates.tiers] == ["experimental", "release"]
    assert gates.tier("release").gates == tuple(range(8))
    assert sorted(fact.field for fact in gates.cell_facts) == [
        *("architecture", "driver", "firmware", "stepping")
    ]
    cells = matrix.load(MATRIX / "cells.toml", Cells)
    for python in ("3.10", "3.11", "3.12", "3.13"):
        assert cells.for_python(python).python == python
        assert len(cells.for_python(python).images) == 2
    matrix.load(MATRIX / "policy.toml", Policy)
    matrix.load(MATRIX / "waivers.toml", Waivers)


def test_the_suites_have_what_the_matrix_requires_and_nothing_unlisted() -> None:
    gates = matrix.load(MATRIX / "gates.toml", Gates)
    suites = MATRIX.parent / "tests" / "gates"
    single = {check for tier in gates.tiers for check in tier.checks}
    for gate in gates.gates:
        texts = [path.read_text() for path in (suites / gate.folder).rglob("test_*.py")]
        found = {id for text in texts for id in re.findall(r'mark\.check\(\s*"([^"]+)"', text)}
        wanted = {id for id in single if int(id[4]) == gate.number} | set(gate.required)
        if gate.built:
            assert found == wanted
        else:
            assert wanted <= found


def test_the_longest_route_wins() -> None:
    gates = matrix.load(MATRIX / "gates.toml", Gates)
    assert gates.layer("gate0.firmware.version") is Layer.FIRMWARE
    assert gates.layer("gate0.other.check") is Layer.DRIVER
    assert gates.layer("gate7.other.check") is Layer.PACKAGE


@pytest.mark.parametrize(
    ("name", "type", "old", "new", "message"),
    [
        ("gates", Gates, "number = 3", 'number = "3"', "gates[3].number: Expected `int`"),
        ("gates", Gates, "number = 3", "number = 9", "gates[3].number: Expected `int` <= 7"),
        ("gates", Gates, 'name = "domain"', 'nome = "domain"', "gates[4]: Object contains unknown"),
        ("gates", Gates, "rooms = 2", "rooms = 0", "tiers[0].rooms: Expected `int` >= 1"),
        ("gates", Gates, "[[tiers]]", "[[tiers", "not TOML"),
        ("gates", Gates, 'firmware = "', 'firmwear = "', "owners: Invalid enum value 'firmwear'"),
        (
            "gates",
            Gates,
            '"gate1.copy.roundtrip"',
            '"gate1"',
            "]: Expected `str` matching regex",
        ),
        ("cells", Cells, 'python = "3.11"', 'python = "4"', "cells[1].python: Expected `str`"),
        ("cells", Cells, 'torch = "2.13.0"', "", "cells[0]: Object missing required field `torch`"),
        ("policy", Policy, '"focused test"', '"hearsay"', "claim_kinds[0]: Invalid enum value"),
    ],
)
def test_a_bad_file_is_named_to_the_line(
    tmp_path: Path, name: str, type: type[object], old: str, new: str, message: str
) -> None:
    good = (MATRIX / f"{name}.toml").read_text()
    path = tmp_path / f"{name}.toml"
    path.write_text(good.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        matrix.load(path, type)
    text = str(caught.value)
    assert message in text
    line = int(text.removeprefix(f"{path}:").split(":")[0])
    lines = good.splitlines()
    if "missing" in message:
        assert lines[line - 1] == "[[cells]]"
    elif message.startswith("owners: "):  # the key itself is wrong: its table is named
        assert lines[line - 1] == "[owners]"
    else:
        at = good[: good.index(old)].count("\n")
        # A value on a line of its own is named by the key that holds it.
        while "=" not in lines[at] and "[[" not in lines[at]:
            at -= 1
        assert line == at + 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("number = 3", "number = 4", "expected the gates 0 to 7 in order"),
        ('hardware = "hardware team"', "", "expected an owner for each layer"),
        ("built = false", "built = true", "gate 3 is built: expected required checks"),
        ('"gate1.copy.roundtrip"', '"gate2.copy.roundtrip"', "a check of another gate"),
        ('field = "stepping"', 'field = "firmware"', "expected one of cell_facts for each of"),
        ('"gate0.identity.read",', "", "stepping is found by gate0.identity.read: expected a req"),
    ],
)
def test_gates_that_contradict_themselves(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "gates.toml"
    path.write_text((MATRIX / "gates.toml").read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        matrix.load(path, Gates)


@pytest.mark.parametrize("field", ["owner", "reason", "issue", "review"])
def test_a_waiver_needs_every_field(tmp_path: Path, field: str) -> None:
    lines = {
        "check": 'check = "gate0.a.b"',
        "outcome": 'outcome = "skipped"',
        "owner": 'owner = "o"',
        "reason": 'reason = "r"',
        "issue": 'issue = "i"',
        "review": "review = 2030-01-01",
    }
    path = tmp_path / "waivers.toml"
    path.write_text("\n".join(["[[waivers]]", *lines.values()]))
    assert len(matrix.load(path, Waivers).waivers) == 1
    path.write_text("\n".join(["[[waivers]]", *(v for k, v in lines.items() if k != field)]))
    with pytest.raises(InputError, match=f"waivers.toml:1: .*missing required field `{field}`"):
        matrix.load(path, Waivers)


def test_a_failure_cannot_be_waived(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(
        '[[waivers]]\ncheck = "gate0.a.b"\noutcome = "failed"\nowner = "o"\nreason = "r"\n'
        'issue = "i"\nreview = 2030-01-01\n'
    )
    with pytest.raises(InputError, match=r"waivers.toml:3: waivers\[0\].outcome"):
        matrix.load(path, Waivers)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        matrix.load(tmp_path / "none.toml", Gates)


def test_an_unknown_python_names_those_there_are() -> None:
    cells = matrix.load(MATRIX / "cells.toml", Cells)
    with pytest.raises(InputError, match=r"expected one of 3.10, 3.11, 3.12, 3.13"):
        cells.for_python("3.9")
