"""Which way operators took, and what the device did for each.

native: a kernel of the plugin's own, which runs device programs or commands; where it is made of
other operators (`relu` of `clamp_min`), each of them counts too. fallback: copied to the host and
back.
Composite operators reach the device as native ones and are counted there, under those names;
compiled code of torch.compile is counted under `compiled`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch_emu import devices, loading

if TYPE_CHECKING:
    from emu_runtime import Activity

WAYS = ("native", "composite", "compiled", "fallback")


def execution_counts() -> dict[str, dict[str, int]]:
    """Calls since start or reset, by way and operator: `["native"]["aten::add.Tensor"]`."""
    counts: dict[str, dict[str, int]] = {way: {} for way in WAYS}
    for line in loading.library().text("counts").splitlines():
        way, operator, calls = line.split("\t")
        counts[way][operator] = int(calls)
    return counts


def reset_execution_counts() -> None:
    loading.library().get("reset_counts")


def bookkeeping_bytes(device: Any = None) -> int:
    """Bytes that the plugin read from a device for itself, to learn of bad indices.

    The runtime counts them among `bytes_from_device`; no operator of the user's moved them.
    """
    return loading.library().number("bookkeeping_bytes", devices.index_of(device))


@dataclass(frozen=True)
class KernelActivity:
    """One device command and the operator that submitted it (`""` where none did)."""

    operator: str
    activity: Activity


@contextlib.contextmanager
def kernel_activity() -> Iterator[list[KernelActivity]]:
    """Records device commands inside; the list it gives is filled when the block ends.

    >>> with torch.emu.kernel_activity() as kernels:
    ...     y = x + 1
    >>> [(k.operator, k.activity.program, k.activity.ticks) for k in kernels]
    """
    from emu_runtime import record_activity

    loading.library()  # or the reason why there is none
    found: list[KernelActivity] = []
    with record_activity(*range(devices.device_count())) as records:
        yield found
    found += [KernelActivity(record.operator, record) for record in records]
