"""Three small real packages with the names and the layout of ours, for tests of the build path."""

from __future__ import annotations

from pathlib import Path

from qualify import process

_PYPROJECT = """\
[build-system]
requires = ["scikit-build-core>=0.11"]
build-backend = "scikit_build_core.build"
[project]
name = "{name}"
version = "0.1.0"
dependencies = [{dependencies}]
[tool.scikit-build]
wheel.py-api = "{api}"
wheel.packages = ["{package}"]
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project({package} LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
add_library({package} SHARED src/answer.cpp)
target_include_directories({package} PRIVATE {include})
target_link_options({package} PRIVATE -static-libstdc++ -static-libgcc)
{torch}
install(TARGETS {package} DESTINATION {package}/lib)
"""
_TORCH = """\
target_include_directories({package} PRIVATE ${{EMU_TORCH_ROOT}}/include)
target_link_libraries({package} PRIVATE ${{EMU_TORCH_ROOT}}/lib/libc10.so)
set_target_properties({package} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                      INSTALL_RPATH "$ORIGIN/../../torch/lib")
"""
_INIT = """\
import ctypes, pathlib
def answer():
    {load}
    folder = pathlib.Path(__file__).parent / "lib"
    return ctypes.CDLL(str(folder / "lib{package}.so")).answer()
"""


def write(tree: Path, *, api: str = "py3") -> None:
    """Write the packages into the empty folder `tree`, and make it a git checkout."""
    for name, folder, package, include, needs, torch in (
        ("emu-driver-shim", "driver_shim", "emu_driver_shim", "include", "", False),
        ("emu-runtime", "runtime_pkg", "emu_runtime", "../driver_shim/include", "", False),
        ("torch-emu", "framework_plugin", "torch_emu", "../runtime_pkg/include", '"torch"', True),
    ):
        root = tree / folder
        (root / "src").mkdir(parents=True)
        (root / package).mkdir()
        (root / "include/emu").mkdir(parents=True)
        (root / "pyproject.toml").write_text(
            _PYPROJECT.format(name=name, package=package, dependencies=needs, api=api)
        )
        extra = _TORCH.format(package=package) if torch else ""
        (root / "CMakeLists.txt").write_text(
            _CMAKE.format(package=package, include=include, torch=extra)
        )
        (root / package / "__init__.py").write_text(
            _INIT.format(package=package, load="import torch" if torch else "pass")
        )
        head = {"driver_shim": "driver.h", "runtime_pkg": "runtime.h"}.get(folder)
        if head:
            (root / f"include/emu/{head}").write_text("#define ANSWER 42\n")
    answer = (
        'extern "C" __attribute__((visibility("default"))) int answer() {{ return {value}; }}\n'
    )
    for folder, head in (("driver_shim", "driver.h"), ("runtime_pkg", "driver.h")):
        text = f"#include <emu/{head}>\n" + answer.format(value="ANSWER")
        (tree / folder / "src/answer.cpp").write_text(text)
    (tree / "framework_plugin/src/answer.cpp").write_text(
        "#include <c10/core/Device.h>\n#include <emu/runtime.h>\n"
        + answer.format(value='(int)c10::Device("cpu").str().size() * ANSWER / 3')
    )
    for words in (["init", "-q"], ["add", "-A"]):
        assert process.run(["git", "-C", str(tree), *words]).ok
