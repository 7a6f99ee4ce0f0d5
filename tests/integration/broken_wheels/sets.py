"""Defects that are between wheels which are installed together, and their twins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from broken_wheels.binaries import GHOST
from broken_wheels.compiler import calling, library, stub
from broken_wheels.good import Wheel, compiled, platform, pure, renamed

Wheels = Callable[[], Sequence[Wheel]]
Change = Callable[[Wheel], object]


@dataclasses.dataclass(frozen=True)
class SetDefect:
    """Like Defect, of several wheels; what is wrong is told of the last."""

    id: str
    bad: Wheels
    good: Wheels
    case: str = ""

    @property
    def name(self) -> str:
        return f"{self.id}-{self.case}" if self.case else self.id


def two(one: Change, other: Change) -> Wheels:
    """The distributions `small` and `other`, of Python only, each changed."""

    def make() -> Sequence[Wheel]:
        wheels = pure(), renamed(pure(), "other")
        one(wheels[0])
        other(wheels[1])
        return wheels

    return make


def same(wheel: Wheel) -> None: ...


def holding(path: str, text: str = "a file") -> Change:
    return lambda wheel: wheel.entries.update({path: text.encode()})


def running(program: str) -> Change:
    def change(wheel: Wheel) -> None:
        module = wheel.folder.partition("-")[0]
        wheel.set("entry_points.txt", f"[console_scripts]\n{program} = {module}:main\n")

    return change


def extended(wheel: Wheel) -> None:
    tagged("cp311-cp311-manylinux_2_28_x86_64")(wheel)
    wheel.swap("WHEEL", "Purelib: true", "Purelib: false")
    wheel.entries["small/fast.cpython-311-x86_64-linux-gnu.so"] = library()


def requiring(*lines: str) -> Change:
    text = "".join(f"Requires-Dist: {line}\n" for line in lines)
    return lambda wheel: wheel.swap("METADATA", "Requires-Dist: packaging>=24\n", text)


def for_python(specifier: str) -> Change:
    return lambda w: w.swap("METADATA", "-Python: >=3.10", f"-Python: {specifier}")


def tagged(tag: str) -> Change:
    def change(wheel: Wheel) -> None:
        platform(wheel, tag)
        wheel.name = f"{wheel.folder.removesuffix('.dist-info')}-{tag}.whl"

    return change


def of_version(version: str, tag: str) -> Wheels:
    def make() -> Sequence[Wheel]:
        wheels = pure(), renamed(pure(), "small", version)
        tagged(tag)(wheels[1])
        return wheels

    return make


def with_files(
    one: dict[str, bytes], other: dict[str, bytes], requirement: str = "small"
) -> Wheels:
    """The distributions `small` and `other` with compiled files; the second requires the first."""

    def make() -> Sequence[Wheel]:
        wheels = compiled(b"", "small/empty"), renamed(compiled(b"", "small/empty"), "other")
        wheels[0].entries.update(one)
        wheels[1].entries.update(other)
        requiring(requirement)(wheels[1])
        return wheels

    return make


def across(given: bytes, wanted: bytes, path: str, requirement: str = "small") -> Wheels:
    """`other` needs a library of `small`, and searches for it along `path`."""
    needing = calling(wanted, GHOST, f"-Wl,-rpath,{path}")
    return with_files({f"small/{GHOST}": given}, {"other/_native.so": needing}, requirement)


def from_torch(name: str) -> Wheels:
    """`other` needs libtorch.so, of which policy says that torch has loaded it before."""

    def make() -> Sequence[Wheel]:
        torch = renamed(compiled(stub(name), f"small/{name}"), "torch")
        other = renamed(compiled(calling(stub("libtorch.so"), "libtorch.so")), "other")
        requiring("torch")(other)
        return torch, other

    return make


def definers(second: str) -> Wheels:
    """`other` needs a symbol that `small` has, and brings a library that may have it too."""
    more = stub("libmore.so", second)
    needing = library(
        "int ghost(void);\nint call(void) { return ghost(); }\n",
        "-Wl,-rpath,$ORIGIN/../small:$ORIGIN",
        with_=((GHOST, stub(GHOST)), ("libmore.so", more)),
    )
    return with_files(
        {f"small/{GHOST}": stub(GHOST)}, {"other/_native.so": needing, "other/libmore.so": more}
    )


def each_its_own(first: bytes, second: bytes, name: str = GHOST) -> Wheels:
    """Each finds a library in its own package, `second` under that name."""

    extension = calling(first, GHOST, "-Wl,-rpath,$ORIGIN")
    other = calling(second, name, "-Wl,-rpath,$ORIGIN", "-Wl,-z,now")
    return with_files(
        {"small/_native.so": extension, f"small/{GHOST}": first},
        {"other/_native.so": other, f"other/{name}": second},
    )


SPIRIT = "libspirit.so.1"
BESIDE = "$ORIGIN/../small"
ANY = "py3-none-any"
MAC = "macosx_11_0"
DISTRIBUTIONS = [
    SetDefect("distribution-twice", of_version("1.1", ANY), of_version("1.0", "py311-none-any")),
    SetDefect(
        "set-unserved",
        two(tagged("cp311-none-any"), tagged("cp312-none-any")),
        two(tagged("cp311-none-any"), tagged("py310-none-any")),
    ),
    SetDefect(
        "set-unserved",
        two(for_python("<3.12"), for_python(">=3.12")),
        two(for_python("<3.12"), for_python(">=3.11")),
        case="requires-python",
    ),
    SetDefect(
        "pins-conflict",
        two(same, requiring("small==2.0")),
        two(same, requiring("small~=1.0", 'small==2.0; python_version < "3.9"')),
    ),
    SetDefect(
        "pins-conflict",
        two(requiring("torch~=2.13.0"), requiring("torch>=2.14")),
        two(requiring("torch~=2.13.0"), requiring("torch>=2.12")),
        case="outside",
    ),
    SetDefect(
        "pins-conflict",
        two(requiring("other[nice]"), requiring("rich<13")),
        two(requiring("other"), requiring("rich<13")),
        case="extra",
    ),
    SetDefect(
        "pins-conflict",
        two(requiring("rich<13"), requiring('rich>=13; python_version >= "3.13"')),
        two(requiring("rich<13"), requiring('rich>=13; sys_platform == "win32"')),
        case="marker",
    ),
    SetDefect(
        "extra-missing",
        two(same, requiring("small[nicer]")),
        two(same, requiring("small[Nice]")),
    ),
]
DISTRIBUTIONS += [
    SetDefect(
        "set-unserved",
        two(tagged(f"cp311-none-{MAC}_x86_64"), tagged(f"cp311-none-{MAC}_arm64")),
        two(tagged(f"cp311-none-{MAC}_universal2"), tagged(f"cp311-none-{MAC}_arm64")),
        case="universal",
    ),
    SetDefect(
        "set-unserved",
        two(tagged("pp311-none-any"), tagged("cp311-none-any")),
        two(tagged("pp311-pypy311_pp73-any"), same),
        case="pypy",
    ),
    SetDefect(
        "pins-conflict",
        two(tagged(f"cp311-none-{MAC}_arm64"), requiring('small>1; sys_platform == "darwin"')),
        two(tagged(f"cp311-none-{MAC}_arm64"), requiring('small>1; sys_platform == "linux"')),
        case="system",
    ),
]
OWNERS = [
    SetDefect(
        "two-owners",
        two(same, holding("small/data.txt", "other")),
        two(same, holding("small/more.txt", "other")),
    ),
    SetDefect("two-owners", two(same, running("small")), two(same, running("Smaller")), "program"),
    SetDefect(
        "two-owners",
        two(running("tool"), holding("other-1.0.data/scripts/tool")),
        two(running("tool"), holding("other-1.0.data/data/share/tool")),
        case="script",
    ),
    SetDefect(
        "two-owners",
        two(holding("small-1.0.data/data/bin/tool"), holding("other-1.0.data/scripts/tool")),
        two(holding("small-1.0.data/headers/tool.h"), holding("other-1.0.data/headers/tool.h")),
        case="data",
    ),
    SetDefect(
        "two-owners",
        two(holding("shared/more.txt"), holding("shared", "a file")),
        two(holding("shared/more.txt"), holding("shared/most.txt")),
        case="folder",
    ),
    SetDefect(
        "two-owners-case",
        two(same, holding("small/DATA.txt")),
        two(same, holding("small/DATE.txt")),
    ),
    SetDefect("two-owners-case", two(same, running("SMALL")), two(same, running("s")), "program"),
    SetDefect(
        "module-two-owners",
        two(same, holding("small.py")),
        two(same, holding("smaller.py")),
    ),
    SetDefect(
        "module-two-owners",
        two(holding("small/fast.py"), extended),
        two(holding("small/fast.py"), holding("small/fast.pyi")),
        case="extension",
    ),
    SetDefect(
        "module-shadowed",
        two(holding("shared.py"), holding("shared/more.py")),
        two(holding("shared/most.py"), holding("shared/more.py")),
        case="of-the-set",
    ),
]
LIBRARIES = [
    SetDefect(
        "needed-missing",
        from_torch("libc10.so"),
        from_torch("libtorch.so"),
        case="of-the-set",
    ),
    SetDefect(
        "needed-unreached",
        across(stub(GHOST), stub(GHOST), "$ORIGIN"),
        across(stub(GHOST), stub(GHOST), BESIDE),
        case="of-the-set",
    ),
    SetDefect(
        "needed-undeclared",
        across(stub(GHOST), stub(GHOST), BESIDE, "packaging"),
        across(stub(GHOST), stub(GHOST), BESIDE),
        case="of-the-set",
    ),
    SetDefect(
        "version-missing",
        across(stub(GHOST, "ghost", "GHOST_1"), stub(GHOST, "ghost", "GHOST_2"), BESIDE),
        across(stub(GHOST, "ghost", "GHOST_2"), stub(GHOST, "ghost", "GHOST_2"), BESIDE),
        case="of-the-set",
    ),
    SetDefect(
        "undefined-symbol",
        across(stub(GHOST, "spirit"), stub(GHOST), BESIDE),
        across(stub(GHOST), stub(GHOST), BESIDE),
        case="of-the-set",
    ),
    SetDefect(
        "undefined-symbol",
        across(stub(GHOST, "spirit", "GHOST_1"), stub(GHOST, "ghost", "GHOST_1"), BESIDE),
        across(stub(GHOST, "ghost", "GHOST_1"), stub(GHOST, "ghost", "GHOST_1"), BESIDE),
        case="of-the-set-versioned",
    ),
    SetDefect("symbol-two-providers", definers("ghost"), definers("spirit"), case="of-the-set"),
    SetDefect(
        "library-twice",
        each_its_own(stub(GHOST), stub(GHOST, "ghost", "GHOST_1")),
        each_its_own(stub(GHOST), stub(SPIRIT), SPIRIT),
        case="of-the-set",
    ),
    SetDefect(
        "library-copied",
        each_its_own(stub(GHOST), stub(GHOST)),
        each_its_own(stub(GHOST), stub(SPIRIT), SPIRIT),
    ),
    SetDefect(
        "two-openmp",
        with_files(
            {"small/libgomp.so.1": stub("libgomp.so.1")},
            {"other/libiomp5.so": stub("libiomp5.so")},
        ),
        with_files(
            {"small/libgomp.so.1": stub("libgomp.so.1")},
            {"other/libompt.so": stub("libompt.so")},
        ),
        case="of-the-set",
    ),
]
DEFECTS = [*DISTRIBUTIONS, *OWNERS, *LIBRARIES]
