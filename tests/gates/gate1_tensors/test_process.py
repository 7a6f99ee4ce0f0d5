"""What a process may do around the device: import, fork, share, and end in any order."""

from __future__ import annotations

import json
import os
import signal

import pytest
from child import run_python

# Processes that this one started, and files that only an open device needs.
OPENED = """
import json, os
def opened():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += [f"process {number}" for number in file.read().split()]
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", "/memfd:")):
            found.append(target)
    return found
"""


@pytest.mark.check("gate1.import.never_opens_device", obligations=["G1"], kind="focused test")
def test_import(accelerator: str) -> None:
    """`import torch` on a login node opens the device, starts a process or takes memory."""
    done = run_python(
        OPENED
        + f"""
import torch
module = torch.get_device_module("{accelerator}")
assert module.is_available()
assert module.device_count() >= 1
before = opened()
torch.ones(2, device="{accelerator}")
print(json.dumps([before, opened()]))
"""
    )
    assert done.status == 0, done.told
    before, after = json.loads(done.stdout)
    assert before == [], "opened before the first use"
    assert after, "the probe does not see an open device either"


ORDERS = {
    "live_tensor": "x = torch.ones(4, device=D)",
    "first_backward": "x = torch.ones(4, device=D, requires_grad=True); x.sum().backward()",
    "live_stream_and_event": "s = torch.Stream(device=D); e = s.record_event()",
    "work_in_flight": """
w = torch.full((256, 256), 1 / 256, device=D)
for _ in range(200): w = w @ w""",
    "tensor_in_cycle": """
class Node: pass
n = Node(); n.self = n; n.x = torch.ones(4, device=D)""",
    "tensor_in_module_global": "import sys; sys.kept = torch.ones(4, device=D)",
    "atexit_uses_device": """
import atexit
x = torch.ones(4, device=D)
atexit.register(lambda: print(x.sum().item()))""",
    # Asleep, not inside an operator: there torch itself aborts, on the CPU too.
    "thread_holds_tensor": """
import threading
ready = threading.Event()
def work():
    x = torch.ones(64, device=D) * 2
    assert x.sum().item() == 128
    ready.set()
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start(); ready.wait()""",
    "pinned_memory": "x = torch.ones(1 << 16).pin_memory(); y = x.to(D, non_blocking=True)",
}


@pytest.mark.check("gate1.exit.status", obligations=["G1"], kind="focused test")
@pytest.mark.parametrize("order", ORDERS)
def test_exit(accelerator: str, order: str) -> None:
    """The process crashes at exit, after all its work was right, and the job counts as failed."""
    for _ in range(5 if order == "first_backward" else 1):
        done = run_python(f"import torch\nD = {accelerator!r}\n{ORDERS[order]}\nprint('ran')")
        assert (done.status, done.stdout.split()[0]) == (0, "ran"), done.told


@pytest.mark.check("gate1.exit.exception", obligations=["G1"], kind="focused test")
def test_exit_with_exception(accelerator: str) -> None:
    """An uncaught exception with live device tensors ends in a signal that hides it."""
    done = run_python(
        f"import torch\nx = torch.ones(4, device={accelerator!r})\nraise ValueError('the cause')"
    )
    assert done.status == 1, done.told
    assert done.stderr.rstrip().endswith("ValueError: the cause")


STOPPED = """
import os, signal, torch, emu_runtime
x = torch.ones(4, device="emu", requires_grad=True)
BACKWARD
pid = emu_runtime.Device(0).properties().emud_pid
torch.accelerator.synchronize()
os.kill(pid, signal.SIGSTOP)
print(pid, flush=True)
"""


@pytest.mark.check("gate1.exit.device_stopped", obligations=["G1", "Q8"], kind="focused test")
@pytest.mark.parametrize("backward", [False, True], ids=["idle", "after_backward"])
def test_exit_without_answer(accelerator: str, backward: bool) -> None:
    """A process whose device no longer answers can't end: the job holds its machine for ever."""
    if accelerator != "emu":
        pytest.skip(f"{accelerator} is no process that could be stopped from here")
    code = STOPPED.replace("BACKWARD", "x.sum().backward()" if backward else "")
    done = run_python(code, timeout=45)
    os.kill(int(done.stdout), signal.SIGCONT)  # it finds its client gone, and ends
    assert done.status == 0, done.told
    assert len(done.stderr.splitlines()) == 1 and "did not answer" in done.stderr, done.told


@pytest.mark.check("gate1.fork.raises", obligations=["G1"], kind="focused test")
def test_fork(accelerator: str) -> None:
    """A forked child hangs, or corrupts the parent's tensors."""
    done = run_python(
        f"""
        import os, torch
        x = torch.ones(4, device="{accelerator}")
        child = os.fork()
        if child == 0:
            try:
                torch.ones(4, device="{accelerator}")
            except RuntimeError as error:
                os._exit(0 if "spawn" in str(error) else 3)
            os._exit(4)
        _, status = os.waitpid(child, 0)
        assert x.sum().item() == 4, "the parent's device is broken"
        print("child", os.waitstatus_to_exitcode(status))
        """,
        timeout=60,
    )
    assert done.status == 0, done.told
    assert done.stdout.strip() == "child 0", f"3: no word of spawn, 4: no error. {done.told}"


@pytest.mark.check("gate1.fork.dataloader", obligations=["G1"], kind="focused test")
def test_dataloader(accelerator: str) -> None:
    """`DataLoader(num_workers=2)` hangs once the device is in use."""
    done = run_python(
        f"""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(64.0))
        def total(where):
            loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=where != "cpu")
            return sum(batch.to(where).sum().item() for (batch,) in loader)
        print(total("cpu"), total("{accelerator}"), total("{accelerator}"))
        """,
        timeout=120,
    )
    assert done.status == 0, done.told
    assert done.stdout.split() == ["2016.0"] * 3, done.told


@pytest.mark.check("gate1.process.tensor_through_queue", obligations=["G1"], kind="focused test")
def test_queue(accelerator: str) -> None:
    """A device tensor sent to another process arrives as garbage."""
    done = run_python(
        f"""
        import io, torch
        from multiprocessing.reduction import ForkingPickler
        import torch.multiprocessing
        x = torch.arange(6.0, device="{accelerator}")
        try:
            data = bytes(ForkingPickler.dumps(x))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            print("refused", str(error)[:200])
        else:
            print("sent", ForkingPickler.loads(data).tolist())
        """
    )
    assert done.status == 0, done.told
    word, _, rest = done.stdout.strip().partition(" ")
    assert word in ("refused", "sent")
    assert rest if word == "refused" else rest == str([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), done.told
