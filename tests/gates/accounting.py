"""Which way operators took, and what moved between host and device, as the stack counts it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Account(NamedTuple):
    """Differences over a piece of work. `ways` maps native, composite, ... to operator counts.

    Bytes are what the program moved: what the plugin reads for itself is taken off, by its own
    count, which `gate2.classifier.no_fallback` holds against the program's.
    """

    ways: dict[str, dict[str, int]]
    bytes_to_device: int
    bytes_from_device: int
    launches: int

    def total(self, way: str) -> int:
        return sum(self.ways.get(way, {}).values())

    def summary(self) -> dict[str, Any]:
        return {
            "path": {
                way: self.total(way) for way in ("native", "composite", "compiled", "fallback")
            },
            "operators": {way: dict(sorted(ops.items())) for way, ops in self.ways.items()},
            "bytes_to_device": self.bytes_to_device,
            "bytes_from_device": self.bytes_from_device,
            "launches": self.launches,
        }


def measure(device: str) -> Account:
    """The counters as they stand; all zero for a device without a runtime of ours."""
    if device != "emu":
        return Account({}, 0, 0, 0)
    import emu_runtime

    torch.accelerator.synchronize()
    counters = emu_runtime.Device(0).counters()
    module = torch.get_device_module(device)
    return Account(
        {way: dict(ops) for way, ops in module.execution_counts().items()},
        counters.bytes_to_device,
        counters.bytes_from_device - module.bookkeeping_bytes(0),
        counters.launches,
    )


def since(device: str, before: Account) -> Account:
    """What was counted after `before`."""
    now = measure(device)
    ways = {
        way: {
            name: count - before.ways.get(way, {}).get(name, 0)
            for name, count in operators.items()
            if count != before.ways.get(way, {}).get(name, 0)
        }
        for way, operators in now.ways.items()
    }
    return Account(
        ways,
        now.bytes_to_device - before.bytes_to_device,
        now.bytes_from_device - before.bytes_from_device,
        now.launches - before.launches,
    )
