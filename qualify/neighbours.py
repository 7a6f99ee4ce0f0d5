"""The releases before and after the one here: what is upgraded from, rolled back to, put beside.

Where none was published, a neighbour is built like the release itself, from a copy of the same
sources in which numbers are moved: the version wherever it is written, and the minor numbers
of the two interfaces in their headers. Each package has one module of its own besides,
as releases differ in their files: what an upgrade leaves behind is seen by it.
The compiler's cache sees through a number that a file does not use, so little is compiled.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from qualify import evidence
from qualify.build import Package, Wheel, build_wheels
from qualify.compat import Neighbour, read_compat
from qualify.content import code_of, sha256_of
from qualify.engine import Engine
from qualify.errors import BuildError
from qualify.gate import Releases
from qualify.images import Declaration
from qualify.interpreter import Python
from qualify.stage import Stages
from qualify.wheelhouse import Closure, fetch_companions

_WRITTEN = (
    ("driver_shim/include/emu/driver.h", r"#define EMU_DRIVER_INTERFACE_{} ", "driver_interface"),
    ("runtime_pkg/include/emu/runtime.h", r"#define EMURT_INTERFACE_{} ", "runtime_interface"),
    ("runtime_pkg/python/emu_runtime/interface.py", r"^{} = ", "runtime_interface"),
)
"""Where the interface numbers are written: MAJOR and MINOR in the place of the braces."""
_WINDOW = "driver_shim/cmake/compatibility.json.in"
_TEXTS = {".toml", ".txt", ".py", ".cpp", ".h"}


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """From the version that is here to a neighbour, as an edit of a copy of the sources."""

    version: str
    neighbour: Neighbour

    @property
    def text(self) -> str:
        moved = msgspec.json.encode(self.neighbour, order="deterministic").decode()
        return f"{self.version} to {moved}, {code_of('neighbours')}"

    def apply(self, source: Path, package: Package) -> None:
        """Edit the sources of `package`, laid out at `source`.

        Raises BuildError when they do not write what is to be moved.
        """
        written = re.compile(rf"(?<![\d.]){re.escape(self.version)}(?![\d.])")
        root = source / package.folder
        texts = [path for path in sorted(root.rglob("*")) if path.suffix in _TEXTS]
        moved = [path for path in texts if _edit(path, written, self.neighbour.version)]
        if root / "pyproject.toml" not in moved:
            raise _unmoved(root / "pyproject.toml", f"the version {self.version}")
        for name, before, field in _WRITTEN:
            if (source / name).is_file():
                self._move_interface(source / name, before, getattr(self.neighbour, field))
        if (source / _WINDOW).is_file():
            self._tell_what_is_added(source / _WINDOW)
        name = package.name.replace("-", "_")
        own = root / "python" / name / f"of_{self.neighbour.version.replace('.', '_')}.py"
        own.write_text(f'"""Only release {self.neighbour.version} has this module."""\n')

    def _move_interface(self, path: Path, before: str, number: str) -> None:
        for part, value in zip(("MAJOR", "MINOR"), number.split("."), strict=True):
            written = before.format(part)
            if not _edit(path, re.compile(rf"({written})\d+", re.M), rf"\g<1>{value}"):
                raise _unmoved(path, f"a line with {written}")

    def _tell_what_is_added(self, window: Path) -> None:
        """The driver's window names what each of its interfaces adds, the moved one too."""
        number = self.neighbour.driver_interface
        if f'"{number}": [' not in window.read_text():
            added = f'"adds": {{\n    "{number}": ["a number that was moved"],'
            if not _edit(window, re.compile(r'"adds": \{'), added):
                raise _unmoved(window, '"adds": {')


def build_neighbours(
    stages: Stages,
    tree: Path,
    here: tuple[Wheel, ...],
    closure: Closure,
    engine: Engine,
    declaration: Declaration,
    python: Python,
) -> Releases:
    """The releases before and after that of the wheels `here`, as matrix/compat.toml says, and the
    companions that matrix/companions.txt pins."""
    if len(versions := sorted({wheel.version for wheel in here})) != 1:
        raise BuildError(
            "the neighbouring releases cannot be made",
            expected="driver, runtime and plugin of one version",
            got=", ".join(versions),
            mend="Give all three pyproject.toml the same version",
        )
    path = tree / "matrix" / "compat.toml"
    wheels: dict[str, tuple[Path, ...]] = {}
    made: list[evidence.Neighbour] = []
    for neighbour in read_compat(path, versions[0]).neighbours:
        move = Move(version=versions[0], neighbour=neighbour)
        built = build_wheels(stages, tree, closure, engine, declaration, python, move)
        wheels[neighbour.name] = tuple(wheel.path for wheel in built)
        made += [
            evidence.Neighbour(
                release=neighbour.name,
                name=wheel.path.name,
                digest=evidence.Digest(sha256=wheel.sha256),
                made=neighbour.made,
            )
            for wheel in built
        ]
    companions = fetch_companions(stages, python, tree / "matrix" / "companions.txt")
    return Releases(
        wheels=wheels,
        neighbours=tuple(made),
        companions={wheel: sha256_of(wheel) for wheel in companions},
        compat=path,
        compat_sha256=sha256_of(path),
    )


def _edit(path: Path, pattern: re.Pattern[str], text: str) -> bool:
    """Put `text` wherever `pattern` is in the file; whether it was anywhere."""
    before = path.read_text(encoding="utf-8")
    after, count = pattern.subn(text, before)
    if count:
        path.write_text(after, encoding="utf-8")
    return bool(count)


def _unmoved(path: Path, what: str) -> BuildError:
    return BuildError(
        f"a neighbouring release cannot be made: {path.name} has nothing to move",
        expected=what,
        got="none",
        mend="Say in qualify/neighbours.py where it is written now",
    )
