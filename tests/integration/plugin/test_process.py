"""Whole processes: exit status, fork, threads, import order, broken installs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from emu_runtime.activity import ActivityKind


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_EMU_FALLBACK": "error", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


BACKWARD = """
import torch
from emu_runtime.activity import ActivityKind
m = torch.nn.Linear(8, 8).to("emu")
m(torch.ones(4, 8, device="emu")).sum().backward()
"""
LIVE = """
import torch
from emu_runtime.activity import ActivityKind
x = torch.ones(100, device="emu")
s = torch.Stream(device="emu")
e = s.record_event()
with s:
    y = x * 2
"""


BUSY_THREAD = """
import torch, threading, time
def work():
    while True:
        torch.ones(64, device="emu").sum().item()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize("code", [BACKWARD, LIVE, BUSY_THREAD], ids=["backward", "live", "thread"])
def test_exit_status_is_zero(code: str) -> None:
    for _ in range(10):
        done = run(code)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "order",
    ["torch, numpy, torch_emu", "torch_emu, torch", "emu_runtime, torch", "numpy, torch_emu"],
)
def test_import_order(order: str) -> None:
    done = run(
        f"import {order}\nimport torch\nassert torch.ones(3, device='emu').sum().item() == 3"
    )
    assert done.returncode == 0, done.stderr


def test_without_autoload() -> None:
    done = run(
        "import torch\nassert not hasattr(torch, 'emu')\nimport torch_emu\n"
        "assert torch.ones(3, device='emu').sum().item() == 3",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode == 0, done.stderr


def test_import_opens_no_device() -> None:
    done = run(
        "import torch, os\nassert torch.emu.is_available()\n"
        "print(any('emud' in open(f'/proc/{p}/comm').read() for p in os.listdir('/proc')\n"
        "  if p.isdigit() and os.path.exists(f'/proc/{p}/stat')\n"
        "  and open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[1] == str(os.getpid())))"
    )
    assert done.stdout.strip() == "False", done.stdout + done.stderr


FORK = """
import os, torch
torch.ones(2, device="emu").add_(1).cpu()
child = os.fork()
if child == 0:
    try:
        torch.ones(2, device="emu").add_(1).cpu()
    except RuntimeError as error:
        os._exit(7 if "spawn" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert torch.ones(2, device="emu").sum().item() == 2
"""


def test_a_forked_child_is_told_to_spawn() -> None:
    done = run(FORK)
    assert done.returncode == 0, done.stderr


TRACED = """
import emu_runtime, torch
x = torch.ones(4, device="emu")
with torch.emu.kernel_activity() as kernels:
    y = x * 2
assert [(k.operator, k.activity.program) for k in kernels] == [("aten::mul.Tensor", "mul_f32")]
model = torch.nn.Linear(4, 4).to("emu")
model(y).sum().backward()
with emu_runtime.correlation(3):
    device = emu_runtime.Device(0)
    device.write(device.alloc(64), bytes(64), emu_runtime.Stream(0))
"""


def test_a_trace_names_the_operator_of_each_command(tmp_path: Path) -> None:
    """Also after the program recorded by itself; a number of its own is no operator."""
    (tmp_path / "program.py").write_text(TRACED)
    done = run(
        "import sys\nfrom emu_runtime.trace import main\n"
        f"sys.exit(main(['--json', '-o', {str(tmp_path / 'out.json')!r}, "
        f"{str(tmp_path / 'program.py')!r}]))"
    )
    assert done.returncode == 0, done.stderr
    records = json.loads((tmp_path / "out.json").read_text())["records"]
    # By its number: a copy on another queue may start before an operator that was called before it.
    (own,) = [record for record in records if record["correlation"] == 3]
    assert (own["operator"], own["kind"]) == ("", ActivityKind.COPY_TO_DEVICE)
    operators = [record for record in records if record is not own]
    assert all(record["operator"].startswith("aten::") for record in operators), operators
    named = {(record["operator"], record["program"]) for record in operators}
    assert named >= {("aten::fill_.Scalar", "fill_f32"), ("aten::mul.Tensor", "mul_f32")}
    assert {"aten::addmm", "aten::_copy_from"} <= {operator for operator, _ in named}
    numbers = {record["operator"]: record["correlation"] for record in operators}
    assert len(set(numbers.values())) == len(numbers)


def test_threads() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        x = torch.full((1000,), float(number), device="emu")
        for _ in range(50):
            x = x + 1
        if not bool((x.cpu() == number + 50).all()):
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


ASK = """
import torch, json
assert torch.ones(2).sum().item() == 2
assert torch.emu.is_available() is False and torch.emu.device_count() == 0
torch.manual_seed(3)
told = []
for use in (lambda: torch.ones(2, device="emu"), lambda: torch.ones(2).to("emu"),
            lambda: torch.emu.current_device(), lambda: torch.nn.Linear(2, 2).to("emu"),
            lambda: torch.tensor([1.0], device="emu"), lambda: torch.emu.synchronize()):
    try:
        use()
    except RuntimeError as error:
        told.append(str(error))
assert len(told) == 6, told
assert all(told[0] == text for text in told), told
print(json.dumps({"told": told[0], "status": torch.emu.diagnose().status}))
"""


def install_copy(folder: Path) -> Path:
    """A copy of the installed plugin that comes first on the path."""
    import shutil

    import torch_emu

    shutil.copytree(Path(torch_emu.__file__).parent, folder / "torch_emu")
    return folder


def test_without_a_device(tmp_path: Path) -> None:
    done = run(ASK, EMU_PRIVATE="0", EMU_DEVICE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout


def test_another_stamp_is_refused_before_loading(tmp_path: Path) -> None:
    place = install_copy(tmp_path)
    folder = place / "torch_emu" / "lib" / "torch2.13"
    for file in (folder / "libtorch_emu.so", folder / "stamp.json"):
        data = file.read_bytes()
        assert data.count(b'"torch": "2.13.0"') == 1
        file.write_bytes(data.replace(b'"torch": "2.13.0"', b'"torch": "2.12.0"'))
    done = run(
        ASK + "\nprint('libtorch_emu' in open('/proc/self/maps').read())", PYTHONPATH=str(place)
    )
    assert done.returncode == 0, done.stderr
    assert "2.12" in done.stdout and "2.13" in done.stdout and "pip install" in done.stdout
    assert done.stdout.rstrip().endswith("False")


def test_another_torch_is_refused_before_loading(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "from importlib.abc import Loader, MetaPathFinder\n"
        "from importlib.machinery import PathFinder\n"
        "class Newer(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name != 'torch.version': return None\n"
        "        spec = PathFinder.find_spec(name, path)\n"
        "        run = spec.loader.exec_module\n"
        "        def exec_module(module):\n"
        "            run(module)\n"
        "            module.__version__ = '2.14.1'\n"
        "        spec.loader.exec_module = exec_module\n"
        "        return spec\n"
        "sys.meta_path.insert(0, Newer())\n"
    )
    done = run(
        ASK + "\nprint('libtorch_emu' in open('/proc/self/maps').read())", PYTHONPATH=str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "2.14.1" in done.stdout and "2.13" in done.stdout and "pip install" in done.stdout
    assert done.stdout.rstrip().endswith("False")


@pytest.mark.parametrize("damage", ["missing", "empty", "no stamp", "cut"])
def test_a_damaged_library_is_told(tmp_path: Path, damage: str) -> None:
    place = install_copy(tmp_path)
    library = place / "torch_emu" / "lib" / "torch2.13" / "libtorch_emu.so"
    data = library.read_bytes()
    library.unlink()
    if damage == "empty":
        library.write_bytes(b"")
    elif damage == "no stamp":
        library.write_bytes(data.replace(b"EMU-TORCH-STAMP", b"EMU-TORCH-STUMP"))
    elif damage == "cut":
        library.write_bytes(data[:4096])
    done = run(ASK, PYTHONPATH=str(place))
    assert done.returncode == 0, done.stderr
    assert "force-reinstall" in done.stdout


@pytest.mark.parametrize("part", ["registration.py", "stamp.py"])
def test_a_missing_module_is_told_and_torch_works(tmp_path: Path, part: str) -> None:
    """What an installer leaves that is killed."""
    place = install_copy(tmp_path)
    (place / "torch_emu" / part).unlink()
    done = run("import torch\nprint(torch.ones(2).sum().item())", PYTHONPATH=str(place))
    assert done.returncode == 0, done.stderr
    assert "2.0" in done.stdout
    assert "torch-emu is damaged" in done.stderr and "pip install" in done.stderr


def test_without_the_runtime(tmp_path: Path) -> None:
    (tmp_path / "emu_runtime.py").write_text("raise ModuleNotFoundError('no emu_runtime here')\n")
    done = run(ASK, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "emu-runtime" in done.stdout


def test_a_bad_policy_is_told() -> None:
    done = run(ASK, TORCH_EMU_FALLBACK="maybe")
    assert done.returncode == 0, done.stderr
    assert "expected error, warn or allow, got `maybe`" in done.stdout


def test_interrupts_go_through(tmp_path: Path) -> None:
    (tmp_path / "emu_runtime.py").write_text("raise KeyboardInterrupt\n")
    done = run("import torch", PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
