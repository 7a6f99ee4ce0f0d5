"""Broken installs: `import torch` works, nothing crashes, and the first use says why.

Each is made of links to what is installed, with a part really missing or of another version.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from child import Finished, run_python
from gate7_release.installed import mirror, run_in

ASK = """
import torch, torch.nn
assert torch.ones(2).sum().item() == 2
assert torch.emu.is_available() is False, "it says that it is available"
assert torch.emu.device_count() == 0
said = []
for use in (lambda: torch.ones(2, device="emu"), lambda: torch.nn.Linear(2, 2).to("emu")):
    try:
        use()
    except RuntimeError as error:
        said.append(str(error))
    else:
        raise SystemExit("it worked, with a part missing")
print("SAID", *said, sep="\\n")
"""


def said(done: Finished) -> str:
    assert done.status == 0, done.told
    return done.stdout.partition("SAID")[2]


@pytest.mark.check("gate7.install.without_runtime", obligations=["I8"], kind="focused test")
def test_without_runtime(tmp_path: Path) -> None:
    """The runtime was uninstalled: `import torch` dies, or the cause is hidden."""
    place = mirror(tmp_path / "site", leave_out=("emu-runtime",))
    assert "emu-runtime" in said(run_in(place, ASK)).replace("emu_runtime", "emu-runtime")


@pytest.mark.check("gate7.install.without_driver", obligations=["I8"], kind="focused test")
def test_without_driver(tmp_path: Path) -> None:
    """The driver shim was uninstalled: `import torch` dies, or the cause is hidden."""
    place = mirror(tmp_path / "site", leave_out=("emu-driver-shim",))
    assert "emu-driver-shim" in said(run_in(place, ASK)).replace(
        "emu_driver_shim", "emu-driver-shim"
    )


LIBRARIES = {
    "libemudrv": "emu_driver_shim/lib/libemudrv.so",
    "libemurt": "emu_runtime/lib/libemurt.so",
    "libtorch_emu": "torch_emu/lib/torch2.13/libtorch_emu.so",
}


@pytest.mark.check("gate7.install.damaged_library", obligations=["I8"], kind="focused test")
@pytest.mark.parametrize("name", LIBRARIES)
def test_damaged(tmp_path: Path, name: str) -> None:
    """A library was cut short by a full disk: the interpreter dies, or the cause is hidden."""
    library = mirror(tmp_path / "site") / LIBRARIES[name]
    library.write_bytes(library.read_bytes()[: library.stat().st_size // 4])
    assert name in said(run_in(tmp_path / "site", ASK))


@pytest.mark.check("gate7.install.no_device", obligations=["I8"], kind="focused test")
def test_no_device(tmp_path: Path) -> None:
    """On a machine without a device the message is misleading, or there is none."""
    done = run_python(ASK, env={"EMU_PRIVATE": "0", "EMU_DEVICE_DIR": str(tmp_path)})
    assert str(tmp_path) in said(done), "where a node was looked for"


@pytest.mark.check("gate7.install.no_permission", obligations=["I6"], kind="focused test")
def test_no_permission(tmp_path: Path) -> None:
    """A user who may not open the node sees a crash or "no device"."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if os.access(parent, os.W_OK) and parent != Path("/tmp"):
            parent.chmod(0o755)
    node = tmp_path / "emu0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(node))
        listener.listen(1)
        node.chmod(0o000)
        # Root may open everything, until it gives up its capabilities. Another user than root may
        # not exist here: a user namespace maps one.
        drop = (
            "import ctypes, os, torch\n"
            "if os.geteuid() == 0:\n"
            "    version_3, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()\n"
            "    assert ctypes.CDLL(None).capset(version_3, none) == 0\n"
        )
        told = said(run_python(drop + ASK, env={"EMU_DEVICE_DIR": str(tmp_path)}, cwd=Path("/")))
    assert str(node) in told
    assert "000" in told or "----" in told, f"the node's mode: {told}"
    assert "group" in told or "gid" in told, told


@pytest.mark.check("gate7.install.stale_node", obligations=["I6"], kind="focused test")
def test_stale_node(tmp_path: Path) -> None:
    """A node whose device process died is taken for a device, and the first use hangs."""
    node = tmp_path / "emu0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(node))
    done = run_python(
        """
        import torch
        try:
            torch.ones(2, device="emu")
        except RuntimeError as error:
            print("SAID", error)
        """,
        env={"EMU_DEVICE_DIR": str(tmp_path)},
        timeout=60,
    )
    assert str(node) in said(done), done.told
