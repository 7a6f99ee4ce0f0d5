"""The matrix: its own files are good, and a bad one names file, line, key and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qualify import images, matrix
from qualify.errors import InputError
from qualify.matrix import Cells, Gates, Layer, Policy, Waivers

MATRIX = Path(__file__).parents[2] / "matrix"


def test_the_files_of_this_checkout() -> None:
    gates = matrix.load(MATRIX / "gates.toml", Gates)
    assert [tier.name for tier in gates.tiers] == ["experimental", "release"]
    assert gates.tier("release").gates == tuple(range(8))
    assert sorted(fact.field for fact in gates.cell_facts) == [
        *("architecture", "configurations", "driver", "firmware", "stepping")
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
        if gate.required:
            assert found == set(gate.required)
        else:
            assert {id for id in single if id.startswith(f"gate{gate.number}.")} <= found


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
    ("old", "new", "key", "message"),
    [
        ("number = 3", "number = 4", "gates", "expected the gates 0 to 7 in order"),
        ('hardware = "hardware team"', "", "owners", "expected an owner for each layer"),
        ("built = false", "built = true", "gates[3].built", "expected required checks, since"),
        (
            '"gate1.copy.roundtrip"',
            '"gate2.copy.roundtrip"',
            "gates[1].required",
            "expected checks of gate 1, got gate2.copy.roundtrip, of another gate",
        ),
        (
            '"gate1.copy.roundtrip",',
            '"gate1.copy.roundtrip", "gate1.copy.roundtrip",',
            "gates[1].required[5]",
            "expected each one once, got gate1.copy.roundtrip, which is gates[1].required[4] too",
        ),
        ('name = "tensors"', 'name = "health"', "gates[1].name", "health, which is gates[0].name"),
        (
            'folder = "gate1_tensors"',
            'folder = "gate0_health"',
            "gates[1].folder",
            "expected each one once, got gate0_health, which is gates[0].folder too",
        ),
        ("gate1_tensors", "../gates", "gates[1].folder", "Expected `str` matching regex"),
        ("gate1_tensors", "/etc", "gates[1].folder", "Expected `str` matching regex"),
        ("gate1_tensors", r"gate1_tensors\n", "gates[1].folder", "Expected `str` matching regex"),
        (
            "gate1.copy.roundtrip",
            r"gate1.copy.roundtrip\n",
            "gates[1].required[4]",
            "matching regex",
        ),
        (
            '"gate0.kernel."',
            r'"gate0.kernel.\n"',
            "routes[3].prefix",
            "Expected `str` matching regex",
        ),
        ('"B2"', r'"B2\n"', "tiers[0].obligations[1]", "Expected `str` matching regex"),
        ('name = "tensors"', 'name = " "', "gates[1].name", "Expected `str` matching regex"),
        (
            "built = false",
            "built = false\ntimeout_seconds = 99999999999",
            "gates[3].timeout_seconds",
            "Expected `int` <= 86400",
        ),
        (
            'prefix = "gate0.kernel."',
            'prefix = "gate0.runtime."',
            "routes[3].prefix",
            "expected each one once, got gate0.runtime., which is routes[2].prefix too",
        ),
        ('"gate0.kernel."', '"gate9.kernel."', "routes[3].prefix", "Expected `str` matching regex"),
        (
            'name = "release"\ngates',
            'name = "experimental"\ngates',
            "tiers[1].name",
            "expected each one once, got experimental, which is tiers[0].name too",
        ),
        ("gates = [0, 1, 2]", "gates = [0, 1, 1]", "tiers[0].gates[2]", "got 1, which is tiers[0]"),
        ("gates = [0, 1, 2]", "gates = [0, 1, 8]", "tiers[0].gates[2]", "Expected `int` <= 7"),
        ('["B1", "B2",', '["B1", "B1",', "tiers[0].obligations[1]", "each one once, got B1"),
        ('["B1", "B2",', '["B1", "bring",', "tiers[0].obligations[1]", "Expected `str` matching"),
        (
            '["docker", "podman"]',
            '["docker", "docker"]',
            "tiers[1].room_kinds[1]",
            "expected each one once, got docker, which is tiers[1].room_kinds[0] too",
        ),
        (
            "checks = [",
            'checks = ["gate1.copy.roundtripp",',
            "tiers[0].checks[0]",
            "expected a check that gate 1 requires, such as gate1.copy.roundtrip, got "
            "gate1.copy.roundtripp. Mend its name",
        ),
        ("checks = [", 'checks = ["gate8.a.b",', "tiers[0].checks[0]", "Expected `str` matching"),
        (
            "distinct_os = 2",
            "distinct_os = 3",
            "tiers[1].distinct_os",
            "expected at most 2, the tier's number of rooms, got 3. Ask for more rooms",
        ),
        (
            "gates = [0, 1, 2, 3, 4, 5, 6, 7]",
            "gates = []",
            "tiers[1].gates",
            "expected gates or checks that the tier asks for, got none",
        ),
        ('field = "stepping"', 'field = "firmware"', "cell_facts", "expected one for each of"),
        (
            '"gate0.identity.read",',
            "",
            "cell_facts[0].check",
            "expected a required check that finds stepping, got gate0.identity.read",
        ),
    ],
)
def test_gates_that_contradict_themselves(
    tmp_path: Path, old: str, new: str, key: str, message: str
) -> None:
    path = tmp_path / "gates.toml"
    good = (MATRIX / "gates.toml").read_text()
    assert old in good
    path.write_text(good.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        matrix.load(path, Gates)
    place = re.match(rf"{path}:(\d+): {re.escape(key)}: ", str(caught.value))
    assert place and message in str(caught.value)
    if key.count("."):  # else it is the tables that are wrong, or one that is not there
        field = key.split(".")[1].partition("[")[0]
        assert path.read_text().splitlines()[int(place[1]) - 1].startswith(f"{field} = ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("emu-a0-py3.11", "emu-a0-py3.10", "28: cells[1].id: expected each one once, got emu-a0"),
        ('["debian12", "debian13"]', "[]", "16: cells[0].images: expected images of the cell's"),
        ('"debian13"]', '"debian12"]', "16: cells[0].images[1]: expected each one once, got debia"),
        ("A0/1.0.0/eco", "A0/1.0.0/boost", "18: cells[0].configurations[2]: expected each one o"),
        (
            "A0/1.0.0/eco",
            "A0/1.0.0",
            "18: cells[0].configurations[1]: Expected `str` matching regex",
        ),
        ('stepping = "A0"', 'stepping = "A2"', "18: cells[0].configurations: expected one of A2"),
        ('"3.10"', '"3.\u0661\u0660"', "15: cells[0].python: Expected `str` matching regex"),
        ('"3.10"', r'"3.10\n"', "15: cells[0].python: Expected `str` matching regex"),
    ],
)
def test_cells_that_contradict_themselves(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "cells.toml"
    path.write_text((MATRIX / "cells.toml").read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(f"{path}:{message}")):
        matrix.load(path, Cells)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('"emu-a0-py3.9" = ["debian12+root"]', "expected a cell, one of emu-a0-py3.10, "),
        ('"emu-a0-py3.12" = ["debian13"]', "expected rooms beside the cell's own images"),
        ('"emu-a0-py3.12" = ["a+b", "a+b"]', "expected each one once, got a+b"),
        ('"emu-a0-py3.12" = ["a+b+c"]', "Expected `str` matching regex"),
        ('"emu-a0-py3.12" = ["Debian 12"]', "Expected `str` matching regex"),
    ],
)
def test_rooms_of_a_cell_that_cannot_be(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "cells.toml"
    cells = (MATRIX / "cells.toml").read_text().partition("[installs]\n")[0]
    path.write_text(f"{cells}[installs]\n{lines}\n")
    with pytest.raises(InputError, match=re.escape(message)):
        matrix.load(path, Cells)


def test_every_room_of_the_matrix_is_declared() -> None:
    declared = images.load(MATRIX.parent / "containers" / "images.toml")
    cells = matrix.load(MATRIX / "cells.toml", Cells)
    every = (*cells.cells, *cells.installed_only)
    rooms = [room for cell in every for room in cells.rooms_of(cell)]
    assert all(images.named(declared, room) for room in rooms)
    assert len(rooms) >= 20


def test_what_is_installed_only_is_no_cell_of_the_matrix() -> None:
    cells = matrix.load(MATRIX / "cells.toml", Cells)
    (only,) = cells.installed_only
    assert cells.installed_with(only.python) == only
    assert cells.installed_with("3.11") == cells.for_python("3.11")
    with pytest.raises(InputError, match=rf"no single cell for Python '{only.python}'"):
        cells.for_python(only.python)
    with pytest.raises(InputError, match="unknown cell"):
        cells.by_id(only.id)


def test_nothing_is_installed_only_that_is_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "cells.toml"
    path.write_text((MATRIX / "cells.toml").read_text().replace("emu-a0-py3.14", "emu-a0-py3.13"))
    with pytest.raises(InputError, match=re.escape("each one once, got emu-a0-py3.13")):
        matrix.load(path, Cells)
    path.write_text((MATRIX / "cells.toml").read_text().replace('["debian-forky"]', "[]"))
    with pytest.raises(InputError, match=re.escape("installed_only[0].images")):
        matrix.load(path, Cells)


def test_there_is_a_cell_and_a_tier(tmp_path: Path) -> None:
    """An error about an unknown one names those that there are."""
    path = tmp_path / "any.toml"
    path.write_text("cells = []\n")
    with pytest.raises(InputError, match=r"any.toml:1: cells: Expected `array` of length >= 1"):
        matrix.load(path, Cells)
    good = (MATRIX / "gates.toml").read_text()
    tiers = good[good.index("[[tiers]]") : good.index("[[cell_facts]]")]
    path.write_text("tiers = []\n" + good.replace(tiers, ""))
    with pytest.raises(InputError, match=r"any.toml:1: tiers: Expected `array` of length >= 1"):
        matrix.load(path, Gates)


WAIVER = """[[waivers]]
check = "gate1.copy.roundtrip"
outcome = "skipped"
owner = "o"
reason = "r"
issue = "i"
review = 2030-01-01
"""


def test_a_waiver_of_a_check_that_no_gate_has(tmp_path: Path) -> None:
    gates = matrix.load(MATRIX / "gates.toml", Gates)
    path = tmp_path / "waivers.toml"
    path.write_text(WAIVER + WAIVER.replace("gate1.copy.roundtrip", "gate4.of.later"))
    assert len(matrix.read_waivers(path, gates).waivers) == 2
    path.write_text(WAIVER.replace("roundtrip", "round_trip"))
    message = r"waivers.toml:2: waivers\[0\].check: expected a check that gate 1 requires, such as "
    with pytest.raises(InputError, match=message + "gate1.copy.roundtrip, got gate1.copy.round_tr"):
        matrix.read_waivers(path, gates)


def test_two_waivers_for_one_thing(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(WAIVER + WAIVER.replace("skipped", "expected failure"))
    assert len(matrix.load(path, Waivers).waivers) == 2
    path.write_text(WAIVER + WAIVER)
    message = r"waivers.toml:9: waivers\[1\].check: expected each one once, got skipped of gate1"
    with pytest.raises(InputError, match=message):
        matrix.load(path, Waivers)


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


@pytest.mark.parametrize(("line", "field"), [(4, "owner"), (5, "reason"), (6, "issue")])
def test_white_space_is_no_owner_reason_or_issue(tmp_path: Path, line: int, field: str) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(WAIVER.replace(f'{field} = "{field[0]}"', f'{field} = " \\t"'))
    message = rf"waivers.toml:{line}: waivers\[0\].{field}: Expected `str` matching"
    with pytest.raises(InputError, match=message):
        matrix.load(path, Waivers)


def test_a_review_that_nobody_will_see(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(WAIVER.replace("2030-01-01", "2100-12-31"))
    assert len(matrix.load(path, Waivers).waivers) == 1
    path.write_text(WAIVER.replace("2030-01-01", "2101-01-01"))
    message = (
        r"waivers.toml:7: waivers\[0\].review: expected a day up to 2100-12-31, got 2101-01-01"
    )
    with pytest.raises(InputError, match=message):
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


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5_000])
def test_what_is_too_much_for_python_to_read_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"cannot read {path}: "):
        matrix.load(path, Gates)


def test_an_unknown_python_names_those_there_are() -> None:
    cells = matrix.load(MATRIX / "cells.toml", Cells)
    with pytest.raises(InputError, match=r"expected one of 3.10, 3.11, 3.12, 3.13"):
        cells.for_python("3.9")
