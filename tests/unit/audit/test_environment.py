"""Which environments a set is for, and which wheel an installer takes in each."""

from __future__ import annotations

import pytest
from broken_wheels.good import pure, renamed
from packaging.markers import Marker, default_environment

from audit.facts import facts_of
from qualify.audit import environment
from qualify.audit.environment import Environment
from qualify.audit.wheel import Wheel

PYTHONS = ("3.11", "3.12")


def wheel(tag: str, name: str = "small", version: str = "1.0", python: str = "") -> Wheel:
    made = renamed(pure(), name, version)
    made.name = f"{name}-{version}-{tag}.whl"
    if python:
        made.swap("METADATA", "Requires-Python: >=3.10", f"Requires-Python: {python}")
    return facts_of(made)


def env(minor: int, system: str = "linux", machine: str = "x86_64", free: str = "") -> Environment:
    return Environment(minor, f"cp3{minor}{free}", system, machine)


def test_of_pure_wheels_each_python() -> None:
    found = environment.of_set([wheel("py3-none-any")], PYTHONS)
    assert [each.name for each in found] == ["Python 3.11 any", "Python 3.12 any"]


def test_of_tags_each_system_and_each_python_without_a_lock() -> None:
    set_ = [
        wheel("cp312-cp312t-manylinux_2_28_x86_64.manylinux2014_x86_64"),
        wheel("py3-none-musllinux_1_2_aarch64", "other"),
    ]
    found = environment.of_set(set_, ("3.12",))
    assert {(e.abi, e.system, e.machine) for e in found} == {
        (abi, *system)
        for abi in ("cp312", "cp312t")
        for system in (("linux", "x86_64"), ("musllinux", "aarch64"))
    }


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", (11, 12)),
        ("py2.py3-none-any", (11, 12)),
        ("py312-none-any", (12,)),
        ("cp311-cp311-linux_x86_64", (11,)),
        ("cp311-abi3-manylinux2014_x86_64", (11, 12)),
        ("cp312-none-manylinux1_x86_64", (12,)),
        ("cp311-cp311t-linux_x86_64", ()),
        ("pp311-pypy311_pp73-linux_x86_64", ()),
        ("py3-none-linux_aarch64", ()),
        ("py3-none-musllinux_1_2_x86_64", ()),
        ("py3-none-macosx_11_0_universal2", ()),
        ("py3-none-win_amd64", ()),
    ],
)
def test_tags(tag: str, fits: tuple[int, ...]) -> None:
    one = wheel(tag)
    for minor in (11, 12):
        taken, absent = environment.selected([one], env(minor))
        assert (taken, absent) == (([one], []) if minor in fits else ([], [one]))


@pytest.mark.parametrize(
    ("tag", "machines"),
    [
        ("universal2", ("arm64", "x86_64")),
        ("arm64", ("arm64",)),
        ("intel", ("x86_64",)),
    ],
)
def test_macs_take_what_holds_code_for_them(tag: str, machines: tuple[str, ...]) -> None:
    one = wheel(f"cp311-cp311-macosx_11_0_{tag}")
    beside = wheel("cp311-cp311-macosx_11_0_arm64", "other")
    for machine in ("arm64", "x86_64"):
        taken, _ = environment.selected([one], env(11, "macosx", machine))
        assert bool(taken) is (machine in machines)
    names = {each.name for each in environment.of_set([one, beside], ("3.11",))}
    assert names == {f"Python 3.11 macosx {each}" for each in {*machines, "arm64"}}


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("pp311-pypy311_pp73-manylinux_2_28_x86_64", "PyPy 3.11 linux x86_64"),
        ("cp39-cp39-manylinux_2_28_x86_64", "Python 3.9 linux x86_64"),
        ("cp37-cp37m-manylinux_2_28_x86_64", "Python 3.7 linux x86_64"),
        ("cp315-abi3-manylinux_2_28_x86_64", "Python 3.15 linux x86_64"),
        ("py315-none-any", "Python 3.15 any"),
    ],
)
def test_other_pythons_of_tags_where_no_usual_one_has_all(tag: str, name: str) -> None:
    set_ = [wheel(tag, python=">=3"), wheel("py3-none-any", "other", python=">=3")]
    *usual, other = environment.of_set(set_, PYTHONS)
    assert (len(usual), other.name) == (2, name)
    assert environment.selected(set_, other) == (set_, [])
    assert len(environment.of_set(set_[1:], PYTHONS)) == 2


def test_a_python_that_is_none_is_not_looked_at() -> None:
    assert len(environment.of_set([wheel("cp3999999999-none-any")], PYTHONS)) == 2


def test_the_nearest_tag_of_the_newest_version_is_taken() -> None:
    old = wheel("cp311-cp311-manylinux_2_28_x86_64")
    general = wheel("py3-none-any", version="1.1")
    near = wheel("cp311-abi3-manylinux_2_28_x86_64", version="1.1")
    for order in ([old, general, near], [near, general, old]):
        taken, absent = environment.selected(order, env(11))
        assert (taken, absent) == ([near], [])


@pytest.mark.parametrize(
    ("python", "fits"), [(">=3.12", False), ("<3.12", True), ("==3.11.4", True), ("no", True)]
)
def test_requires_python(python: str, fits: bool) -> None:
    taken, _ = environment.selected([wheel("py3-none-any", python=python)], env(11))
    assert bool(taken) is fits


def test_a_file_name_that_is_none_is_always_taken() -> None:
    odd = pure()
    odd.name = "small.whl"
    facts = facts_of(odd)
    assert environment.selected([facts], env(11)) == ([facts], [])


def test_markers_are_those_of_the_environment_and_not_of_this_machine() -> None:
    markers = env(14, "musllinux", "aarch64").markers()
    assert markers["python_version"] == "3.14"
    assert (markers["sys_platform"], markers["platform_machine"]) == ("linux", "aarch64")
    assert markers["implementation_version"].startswith("3.14.")


@pytest.mark.parametrize(
    ("tag", "true", "false"),
    [
        ("cp311-cp311-macosx_11_0_arm64", 'sys_platform == "darwin"', 'sys_platform == "linux"'),
        ("cp311-cp311-macosx_11_0_arm64", 'platform_machine == "arm64"', 'os_name == "nt"'),
        ("cp311-cp311-win_amd64", 'sys_platform == "win32"', 'platform_machine == "x86_64"'),
        ("cp311-cp311-win_amd64", 'platform_machine == "AMD64"', 'os_name == "posix"'),
        ("pp311-pypy311_pp73-linux_x86_64", 'implementation_name == "pypy"', "extra == 'nice'"),
        ("pp311-pypy311_pp73-linux_x86_64", 'implementation_version < "8"', 'os_name == "nt"'),
    ],
)
def test_markers_of_each_system(tag: str, true: str, false: str) -> None:
    here = environment.of_set([wheel(tag)], PYTHONS)[-1 if tag[0] == "p" else 0]
    assert Marker(true).evaluate({**here.markers(), "extra": ""})
    assert not Marker(false).evaluate({**here.markers(), "extra": ""})
    assert set(default_environment()) == set(here.markers())
