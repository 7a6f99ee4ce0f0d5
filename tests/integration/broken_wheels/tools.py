"""Other tools that look at wheels, or install them: how each is called, and what it says.

What a tool says of a file is a set of problems: codes of its own where it has them, else that it
refused the file (a status that is not 0). None at all is None: the tool tells that it does not
look at such a file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from qualify.process import Completed, run

SECONDS = 120
Problems = frozenset[str] | None
REFUSED = frozenset({"refused"})
GROUPS = ("archive", "metadata", "RECORD", "content", "compiled code")


@dataclass(frozen=True)
class Tool:
    """`claims`: the groups of defects that its documentation says it looks at."""

    name: str
    about: str
    claims: tuple[str, ...]
    look: Callable[[Path, Path], Problems]
    """A wheel, and an empty folder to write to."""


def call(words: list[str], place: Path) -> Completed:
    """In `place`, in the folder of this environment's programs, without colours or a network."""
    here = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    env |= {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "1000", "TMPDIR": str(place)}
    return run(words, cwd=place, env=env, timeout=SECONDS)


def status(done: Completed) -> frozenset[str]:
    return frozenset() if done.ok else REFUSED


def tags(wheel: Path) -> list[Tag]:
    try:
        return sorted(parse_wheel_filename(wheel.name)[3], key=str)
    except InvalidWheelFilename:
        return []


def auditwheel(wheel: Path, place: Path) -> Problems:
    shown = call(["auditwheel", "show", str(wheel)], place)
    promised = [tag.platform for tag in tags(wheel) if "linux_" in tag.platform]
    if not promised and "does not look like a platform wheel" in shown.stdout + shown.stderr:
        return None
    words = ["auditwheel", "repair", "--wheel-dir", str(place / "repaired"), str(wheel)]
    words[2:2] = ["--plat", promised[0]] if promised else []
    repaired = call(words, place)
    if "argument --plat: invalid choice" in repaired.stderr:
        return None  # of another architecture or C library than this machine's
    return status(shown) | status(repaired)


def twine(wheel: Path, place: Path) -> Problems:
    done = call(["twine", "check", "--strict", str(wheel)], place)
    said = re.findall(r"(?:WARNING|ERROR)\s+(.*)", done.stdout + done.stderr)
    return frozenset(line.strip().replace(str(wheel), "") for line in said) | status(done)


def check_wheel_contents(wheel: Path, place: Path) -> Problems:
    done = call(["check-wheel-contents", "--no-config", str(wheel)], place)
    return frozenset(re.findall(r": (W\d+):", done.stdout)) | status(done)


def pydistcheck(wheel: Path, place: Path) -> Problems:
    done = call(["pydistcheck", str(wheel)], place)
    return frozenset(re.findall(r"^\d+\. \[([\w-]+)\]", done.stdout, re.M)) | status(done)


def abi3audit(wheel: Path, place: Path) -> Problems:
    done = call(["abi3audit", "--report", str(wheel)], place)
    try:
        (found,) = msgspec.json.decode(done.stdout)["specs"].values()
    except (msgspec.DecodeError, ValueError):
        return REFUSED
    audited = [each["result"] for each in found["wheel"] if each["result"]["is_abi3"]]
    if not audited:
        return None
    keys = ("non_abi3_symbols", "future_abi3_objects")
    return frozenset(key for result in audited for key in keys if result[key])


OTHER_SYSTEM = "is incompatible with the current platform"


def pip(wheel: Path, place: Path) -> Problems:
    words = [sys.executable, "-I", "-m", "pip", "install", "--isolated", "--no-index", "--no-deps"]
    words += ["--no-compile", "--no-cache-dir", "--disable-pip-version-check"]
    words += ["--target", str(place / "target"), "--ignore-requires-python"]
    for tag in tags(wheel)[:1]:
        if tag.interpreter.startswith("cp"):
            dotted = f"{tag.interpreter[2]}.{tag.interpreter[3:]}"
            words += [f"--python-version={dotted}", "--implementation=cp", f"--abi={tag.abi}"]
            words += ["--only-binary=:all:"]
        if tag.platform != "any":
            words += [f"--platform={tag.platform}", "--only-binary=:all:"]
    return status(call([*words, str(wheel)], place))


def uv(wheel: Path, place: Path) -> Problems:
    words = ["uv", "pip", "install", "--offline", "--no-index", "--no-deps", "--no-cache"]
    words += ["--no-config", "--target", str(place / "target"), "--python", sys.executable]
    for tag in tags(wheel)[:1]:
        if tag.interpreter.startswith("cp"):
            words += [f"--python-version={tag.interpreter[2]}.{tag.interpreter[3:]}"]
        if other := re.fullmatch(r"(many|musl)linux_(\d+_\d+)_(x86_64|aarch64)", tag.platform):
            libc = f"manylinux_{other[2]}" if other[1] == "many" else "unknown-linux-musl"
            words += [f"--python-platform={other[3]}-{libc}"]
    done = call([*words, str(wheel)], place)
    return None if OTHER_SYSTEM in done.stderr else status(done)


def installer(wheel: Path, place: Path) -> Problems:
    words = [sys.executable, "-I", "-m", "installer", "--no-compile-bytecode", "--prefix", "/small"]
    return status(call([*words, "--destdir", str(place / "target"), str(wheel)], place))


INSTALLS = ("archive", "metadata", "RECORD")
TOOLS = (
    Tool(
        "auditwheel",
        "`show`, and `repair` to the tag of the file name: libraries and symbol versions that a "
        "platform tag allows, without `--exclude` for those of other packages. Files without "
        "compiled code are none of its business.",
        ("compiled code",),
        auditwheel,
    ),
    Tool(
        "twine",
        "`check --strict`: whether an index can show the description, and metadata that it reads "
        "on the way.",
        ("metadata",),
        twine,
    ),
    Tool(
        "check-wheel-contents",
        "names and layout of the modules in a wheel, and RECORD against them.",
        ("RECORD", "content"),
        check_wheel_contents,
    ),
    Tool(
        "pydistcheck",
        "sizes, counts, names and unexpected files; debug symbols of compiled code.",
        ("content",),
        pydistcheck,
    ),
    Tool(
        "abi3audit",
        "symbols of extension modules for the stable ABI, and nothing else.",
        (),
        abi3audit,
    ),
    Tool("pip", "`install --no-deps --target`: installs what it can.", INSTALLS, pip),
    Tool("uv", "`pip install --no-deps --target`: installs what it can.", INSTALLS, uv),
    Tool(
        "installer", "the library's own command, without `--validate-record`.", INSTALLS, installer
    ),
)
