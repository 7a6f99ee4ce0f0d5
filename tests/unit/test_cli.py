"""The command line as its user meets it: a process, what it prints, and its exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_wheels.good import Wheel, pure, renamed
from samples import CELL, GATES, World, check, events, jsonl, room

from qualify import cli, evidence, index
from qualify.process import Completed, run

TREE = Path(__file__).parents[2]


def qualify(*words: str | Path, cwd: Path | None = None) -> Completed:
    return run([sys.executable, "-m", "qualify", *words], cwd=cwd or TREE, timeout=120)


def test_help_names_every_command() -> None:
    text = qualify("--help").stdout
    for command in ("run", "shell", "decide", "show", "schema", "doctor"):
        assert command in text


def test_schema_is_the_published_one() -> None:
    published = (TREE / "docs" / "schema" / "record.json").read_text()
    assert qualify("schema").stdout == published


def test_show_in_words_and_in_json(tmp_path: Path) -> None:
    World(tmp_path).add(jsonl(events(check("gate0.a.one"))))
    (record,) = (tmp_path / "records").iterdir()
    assert "gate0.a.one" in qualify("show", record).stdout
    shown = json.loads(qualify("show", record, "--json").stdout)
    assert shown == json.loads(record.read_bytes())
    entries = json.loads(qualify("show", tmp_path, "--json").stdout)["entries"]
    assert [entry["record"] for entry in entries] == [record.stem]


def test_a_locale_without_the_letters_is_no_fault(tmp_path: Path) -> None:
    World(tmp_path).add(jsonl(events(check("gate0.a.one"))), room=room("hôtel"))
    (record,) = (tmp_path / "records").iterdir()
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "qualify", "show", record]
    done = run(words, env=env, timeout=120)
    assert done.ok and "h\\xf4tel" in done.stdout, done.stderr
    done = run([*words, "--json"], env=env, timeout=120)
    assert done.ok and json.loads(done.stdout) == json.loads(record.read_bytes()), done.stderr


def test_an_input_error_has_its_status_and_no_traceback(tmp_path: Path) -> None:
    done = qualify("show", tmp_path / "none.json")
    assert done.status == 11
    assert done.stderr.startswith("error: cannot read")
    assert "Traceback" not in done.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with a small matrix of its own: gate 0 with one required check."""
    shutil.copytree(TREE / "matrix", tmp_path / "matrix")
    gates = (tmp_path / "matrix" / "gates.toml").read_text().split("[[tiers]]")[0]
    tier = (
        '[[tiers]]\nname = "experimental"\ngates = [0]\nobligations = ["B0"]\nrooms = 2\n'
        'distinct_os = 1\nroom_kinds = ["docker"]\n'
    )
    tier += "".join(
        f'[[cell_facts]]\nfield = "{fact.field}"\ncheck = "{fact.check}"\n'
        f'detail = "{fact.detail}"\nlayer = "{fact.layer.value}"\n'
        for fact in GATES.cell_facts
    )
    start = gates.index("required = [")
    gates = gates[:start] + 'required = ["gate0.a.one"]' + gates[gates.index("]", start) + 1 :]
    (tmp_path / "matrix" / "gates.toml").write_text(gates + tier)
    (tmp_path / "matrix" / "waivers.toml").write_text("")
    cells = tmp_path / "matrix" / "cells.toml"
    listed = "configurations = " + json.dumps(CELL.configurations)
    cells.write_text(re.sub(r"configurations = \[[^]]*\]", listed, cells.read_text()))
    return tmp_path


def decide(tree: Path, *words: str | Path) -> Completed:
    return qualify("decide", "--tree", tree, "--cell", CELL.id, *words)


def fill(tree: Path, lines: bytes, change: Callable[[Wheel], object] = lambda w: None) -> World:
    """Records of two rooms about a small wheel, as changed."""
    made = pure()
    change(made)
    path = made.write(tree)
    world = World(tree / "evidence")
    for name in ("debian12", "debian13"):
        digest = evidence.digest(path.read_bytes())
        world.add(lines, where=room(name), wheels={path.name: digest})
    return world


def damaged(wheel: Wheel) -> None:
    wheel.record = lambda rows: rows[1:]


def test_decide_exits_0_only_for_a_claim(tree: Path) -> None:
    assert decide(tree).status == 1
    fill(tree, jsonl(events(check("gate0.a.one"))))
    done = decide(tree)
    assert done.status == 0, done.stdout + done.stderr
    assert "CLAIM experimental" in done.stdout
    shown = json.loads(decide(tree, "--json").stdout)
    assert (shown["claim"], shown["reasons"]) == (True, [])


def test_decide_about_wheels(tree: Path) -> None:
    fill(tree, jsonl(events(check("gate0.a.one"))))
    wheel = tree / pure().name
    assert decide(tree, "--wheel", wheel).status == 0
    swapped = pure()
    swapped.entries["small/more.py"] = b"swapped = True"
    swapped.write(tree)
    done = decide(tree, "--wheel", wheel)
    assert done.status == 1
    assert "is about something else: the wheels" in done.stdout
    assert "audit:" not in done.stdout


def test_decide_refuses_wheels_that_the_policy_denies(tree: Path) -> None:
    """Also where every record of them is in order: an inspection denies by itself."""
    wheel = tree / pure().name
    fill(tree, jsonl(events(check("gate0.a.one"))), damaged)
    done = decide(tree, "--wheel", wheel)
    assert done.status == 1
    assert "audit: record-unlisted in small-1.0-py3-none-any.whl" in done.stdout
    assert "package" in done.stdout


def test_decide_takes_what_is_installed_beside(tree: Path) -> None:
    """What two wheels do to each other is denied here as it is by the pipeline."""
    wheel = tree / pure().name
    fill(tree, jsonl(events(check("gate0.a.one"))))
    made = renamed(pure(), "other")
    made.entries["small/data.txt"] = b"other"
    other = made.write(tree)
    assert decide(tree, "--wheel", wheel).status == 0
    done = decide(tree, "--wheel", wheel, "--beside", other)
    assert done.status == 1, done.stderr
    assert f"audit: two-owners in {wheel.name}" in done.stdout
    done = decide(tree, "--beside", other)
    assert done.status == 11 and "expected the wheels that it is installed with" in done.stderr


def test_decide_refuses_a_failure_and_a_removed_record(tree: Path) -> None:
    fill(tree, jsonl(events(check("gate0.a.one", "failed"), end=1)))
    done = decide(tree)
    assert done.status == 1
    assert "refused gate0.a.one [driver, driver team] in debian12, debian13" in done.stdout
    next((tree / "evidence" / "records").iterdir()).unlink()
    assert "is not there" in decide(tree).stdout


def test_the_newest_inputs_are_asked_for(tree: Path) -> None:
    bad = jsonl(events(check("gate0.a.one", "failed"), end=1))
    good = jsonl(events(check("gate0.a.one")))
    fill(tree, bad)
    world = World(tree / "evidence")
    wheel = tree / pure().name
    wheels = {wheel.name: evidence.digest(wheel.read_bytes())}
    for name in ("debian12", "debian13"):
        world.add(good, where=room(name), wheels=wheels, key="a" * 64)
    assert decide(tree).status == 0


def test_unknown_words_are_input_errors(tree: Path) -> None:
    for words, message in (
        (("decide", "--tree", tree, "--cell", "none"), "unknown cell 'none'"),
        (("decide", "--tree", tree, "--cell", CELL.id, "--tier", "gold"), "unknown tier 'gold'"),
        (("run", "--tree", tree, "--python", "3.9"), "no single cell for Python '3.9'"),
    ):
        done = qualify(*words)
        assert done.status == 11
        assert message in done.stderr


def test_a_malformed_matrix_names_file_line_and_key(tree: Path) -> None:
    path = tree / "matrix" / "cells.toml"
    path.write_text(path.read_text().replace('python = "3.11"', "python = 3.11"))
    done = qualify("run", "--tree", tree, "--python", "3.11")
    assert done.status == 11
    line = path.read_text().splitlines().index("python = 3.11") + 1
    assert f"cells.toml:{line}: cells[1].python: Expected `str`, got `float`" in done.stderr


def test_doctor_says_what_there_is() -> None:
    done = qualify("doctor", "--json")
    found = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert {"rooms", "C++ compiler", "disk", "Python 3.12"} <= set(found)
    lacking = [name for name, finding in found.items() if finding["needed"] and not finding["ok"]]
    assert done.status == (12 if lacking else 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_with_its_status(number: signal.Signals) -> None:
    """Cleanup runs to its end although the signal comes twice."""
    code = (
        "import os, sys, signal, time\n"
        "from qualify import cli\n"
        "@cli.app.command()\n"
        "def wait():\n"
        "    try:\n"
        f"        os.kill(os.getpid(), {int(number)}); time.sleep(30)\n"
        "    finally:\n"
        f"        os.kill(os.getpid(), {int(number)}); time.sleep(0.1)\n"
        "        print('cleaned', flush=True)\n"
        "sys.argv[1:] = ['wait']\n"
        "cli.main()\n"
    )
    done = run([sys.executable, "-c", code], env=dict(os.environ), timeout=60)
    assert done.status == 128 + number
    assert done.stdout == "cleaned\n"
    assert "Traceback" not in done.stderr
    assert "the next run goes on" in done.stderr


def test_an_edited_index_is_told(tree: Path) -> None:
    fill(tree, jsonl(events(check("gate0.a.one"))))
    path = tree / "evidence" / index.LINES
    path.write_bytes(path.read_bytes().replace(b'"gate":0', b'"gate":1', 1))
    done = decide(tree)
    assert done.status == 1
    assert "line 2 does not follow" in done.stdout


PLACES = {
    "mount -t tmpfs -o ro none $0": "Read-only file system",
    "mount -t tmpfs -o nr_inodes=1 none $0": "No space left on device",
    "chmod 500 $0": "Permission denied",
}


@pytest.mark.parametrize("which", ["cache", "evidence"])
@pytest.mark.parametrize("place", PLACES)
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, place: str, which: str) -> None:
    """A real one, in a mount namespace; root gives up its right to write where it may not."""
    folders = {name: tmp_path / name for name in ("cache", "evidence")}
    folders[which].mkdir()
    folders = {name: folder / "new" for name, folder in folders.items()}
    words = [sys.executable, "-m", "qualify", "run", "--tree", TREE, "--room", "plain"]
    words += ["--evidence", folders["evidence"]]
    drop = "setpriv --bounding-set -dac_override,-dac_read_search"
    done = run(
        [
            *("unshare", "--map-root-user", "--mount"),
            *("sh", "-ec", f'{place}; exec {drop} "$@"', folders[which].parent, *words),
        ],
        env={**os.environ, "QUALIFY_CACHE": str(folders["cache"])},
        cwd=TREE,
        timeout=60,
    )
    if "unshare failed" in done.stderr:
        pytest.skip("this host refuses namespaces")
    assert done.status == 12, done.stderr
    assert PLACES[place] in done.stderr and "--evidence" in done.stderr
    assert str(folders[which]) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["qualify", "run", "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 70
    assert json.loads(capsys.readouterr().out) == {
        "error": "ZeroDivisionError('ours')",
        "status": 70,
    }


@pytest.mark.parametrize("words", [("run", "--nope"), ("decide",)])
def test_a_wrong_command_line_is_json_too(words: tuple[str, ...]) -> None:
    done = qualify(*words, "--json")
    assert done.status == json.loads(done.stdout)["status"] == 2
    assert "Error" in done.stderr


def test_an_empty_evidence_folder_is_refused(tmp_path: Path) -> None:
    done = qualify("decide", "--cell", "x", "--evidence", "", cwd=tmp_path)
    assert (done.status, list(tmp_path.iterdir())) == (11, [])
    assert "--evidence: expected a folder" in done.stderr


def test_closed_streams_change_no_status() -> None:
    words = f"exec {sys.executable} -m qualify schema <&- >&- 2>&-"
    assert run(["sh", "-c", words]).status == 0
