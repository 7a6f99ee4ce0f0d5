"""Seeds of gate 7: small broken files, and installs that are not what they seem."""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from seeds.seed import Seed, damaged, in_child, replace, wrap

GNU_STACK = 0x6474E551

FILES = "gate7_release.test_files"
LOADING = "gate7_release.test_loading"
BROKEN = "gate7_release.test_broken"
PROGRAMS = "gate7_release.test_programs"
TORCH = "gate7_release.test_torch"


def other_symbol(original: Any, distribution: metadata.Distribution) -> Any:
    """The runtime's library is another than the one that RECORD was written for."""
    return [
        row._replace(digest=f"sha256={'A' * 43}") if row.path.name == "libemurt.so" else row
        for row in original(distribution)
    ]


def rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site is found first that has a runtime of other bytes, under the same metadata."""
    from gate7_release.installed import mirror

    site = mirror(Path(tempfile.mkdtemp(prefix="seed-")) / "site")
    with (site / "emu_runtime" / "lib" / "libemurt.so").open("ab") as library:
        library.write(b"\0")
    in_child(f"import sys\nsys.path.insert(0, {str(site)!r})")(monkeypatch)


def second_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution lists a file of the runtime."""
    folder = Path(tempfile.mkdtemp(prefix="seed-")) / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    owned = metadata.distribution("emu-runtime").locate_file("emu_runtime/__init__.py")
    (folder / "RECORD").write_text(f"{owned},,\n")
    everything = [*metadata.distributions(), metadata.PathDistribution(folder)]
    monkeypatch.setattr(metadata, "distributions", lambda: everything)


def older_promise(original: Any, self: Any, name: str) -> Any:
    text = original(self, name)
    return (
        "Root-Is-Purelib: false\nTag: py3-none-manylinux_2_5_x86_64\n" if name == "WHEEL" else text
    )


def one_more_binary(where: str, old: bytes, new: bytes) -> Seed:
    """Beside the plugin's files there is its library with some bytes exchanged."""

    def more(original: Any, name: str) -> list[Path]:
        found: list[Path] = original(name)
        plugin = [path for path in found if path.name == "libtorch_emu.so"]
        return found + [damaged(path, old, new) for path in plugin]

    return wrap(f"{where}.binaries", more)


def executable_stack(original: Any, path: Path) -> Any:
    """Bit 0 of the flags of the segment that describes the stack."""
    data = path.read_bytes()
    header = struct.pack("<II", GNU_STACK, 6)
    if header not in data or path.name != "libtorch_emu.so":
        return original(path)
    return original(damaged(path, header, struct.pack("<II", GNU_STACK, 7)))


def with_build_path(original: Any, name: str) -> list[Path]:
    file = Path(tempfile.mkdtemp(prefix="seed-")) / "libseed.so"
    file.write_bytes(b"\0/home/builder/project/src/allocator.cpp\0")
    return [*original(name), file]


def stray(original: Any, name: str) -> list[Path]:
    from gate7_release.installed import site

    return [*original(name), site() / "tests" / "test_something.py"]


def test_runner_plugin(original: Any, self: Any) -> Any:
    """Each distribution asks to be loaded by pytest too."""
    return [*original.fget(self), metadata.EntryPoint("emu", "torch_emu.testing", "pytest11")]


def checkout_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(tempfile.mkdtemp(prefix="seed-"))
    (folder / "pyproject.toml").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder))


def whole_site(original: Any, place: Path, code: str, **keywords: Any) -> Any:
    """The check's broken site is not used; what is installed is whole."""
    from gate7_release.installed import site

    return original(site(), code, **keywords)


def no_environment(original: Any, code: str, *rest: Any, **keywords: Any) -> Any:
    keywords.pop("env", None)
    return original(code, *rest, **keywords)


def without_mode(original: Any, name: str, *rest: Any, **env: Any) -> Any:
    copy = Path(tempfile.mkdtemp(prefix="seed-")) / name
    shutil.copyfile(Path(sys.executable).parent / name, copy)
    return subprocess.run([str(copy), *rest], check=False)


def without_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_PRIVATE", "0")
    monkeypatch.setenv("EMU_DEVICE_DIR", "/nonexistent")


def second_copy(name: str) -> Seed:
    """The runtime's library is loaded once more, from a file of this name."""
    return in_child(
        "import ctypes, emu_runtime, pathlib, shutil, tempfile\n"
        f"copy = pathlib.Path(tempfile.mkdtemp(prefix='seed-'), {name!r})\n"
        "ctypes.CDLL(shutil.copy(emu_runtime.load(), copy))"
    )


TORCH_FIRST = (
    "import sys\n"
    "class Order:\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name == 'torch_emu' and 'torch' not in sys.modules:\n"
    "            raise ImportError('import torch first')\n"
    "sys.meta_path.insert(0, Order())"
)
WRITES_HOME = (
    "import os, pathlib\n"
    "pathlib.Path(os.environ['HOME'], '.emu').mkdir(exist_ok=True, parents=True)"
)

SEEDS: dict[str, Seed] = {
    "gate7.install.record_intact": wrap("gate7_release.records.rows", other_symbol),
    "gate7.install.one_owner": second_owner,
    "gate7.install.tags": wrap("importlib.metadata.PathDistribution.read_text", older_promise),
    "gate7.install.glibc_floor": wrap(
        f"{FILES}.elf.read", lambda original, path: original(path)._replace(glibc=(2, 34))
    ),
    "gate7.install.no_build_paths": wrap(f"{FILES}.files", with_build_path),
    "gate7.install.search_paths": one_more_binary(
        FILES, b"$ORIGIN/../../../torch/lib", b"/opt/builder/ws/torch//lib"
    ),
    "gate7.install.no_executable_stack": wrap(f"{FILES}.elf.read", executable_stack),
    "gate7.install.no_python_symbol": one_more_binary(FILES, b"\0memcpy\0", b"\0Py_Foo\0"),
    "gate7.install.licence": replace(f"{FILES}.files", lambda name: []),
    "gate7.install.no_strays": wrap(f"{FILES}.files", stray),
    "gate7.install.entry_points": replace(
        "importlib.metadata.Distribution.entry_points",
        property(functools.partial(test_runner_plugin, metadata.Distribution.entry_points)),
    ),
    "gate7.install.maps": second_copy("libemurt.so"),
    "gate7.install.loaded_bytes": rebuilt,
    "gate7.install.one_copy": second_copy("libother-0a1b2c3d.so.2"),
    "gate7.install.other_torch": wrap(f"{TORCH}.run_python", no_environment),
    "gate7.install.decoys": in_child("import ctypes\nctypes.CDLL('libemurt.so')"),
    "gate7.install.decoy_packages": in_child(
        "import os, sys\nsys.path[:] = [p for p in sys.path if p != os.environ.get('PYTHONPATH')]"
    ),
    "gate7.install.preloaded": wrap(
        f"{LOADING}.start", lambda original, name, *rest, **env: original(name, *rest)
    ),
    "gate7.install.shadow_folder": in_child("open('torch_emu/__init__.py', 'w').close()"),
    "gate7.install.import_orders": in_child(TORCH_FIRST),
    "gate7.install.symbols_resolve": one_more_binary(LOADING, b"\0memcpy\0", b"\0memcpX\0"),
    "gate7.install.clean_environment": in_child(WRITES_HOME),
    "gate7.install.source_unreachable": checkout_on_path,
    "gate7.install.without_runtime": wrap(f"{BROKEN}.run_in", whole_site),
    "gate7.install.without_driver": wrap(f"{BROKEN}.run_in", whole_site),
    "gate7.install.damaged_library": wrap(f"{BROKEN}.run_in", whole_site),
    "gate7.install.no_device": wrap(f"{BROKEN}.run_python", no_environment),
    "gate7.install.no_permission": wrap(f"{BROKEN}.run_python", no_environment),
    "gate7.install.stale_node": wrap(f"{BROKEN}.run_python", no_environment),
    "gate7.install.programs": wrap(f"{PROGRAMS}.start", without_mode),
    "gate7.install.smi_reports": without_device,
    "gate7.install.diag_sees_damage": wrap(
        f"{PROGRAMS}.start", lambda original, name, *rest, **env: original(name, *rest)
    ),
}
