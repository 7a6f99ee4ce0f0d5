"""What a device is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_emu import devices


@dataclass(frozen=True)
class DeviceProperties:
    """`multi_processor_count` is the number of cores: Inductor asks for it by this name."""

    index: int
    name: str
    uuid: str
    stepping: str
    firmware: str
    driver: str
    total_memory: int
    multi_processor_count: int
    max_lanes: int
    clock_hertz: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    from emu_runtime import Device

    devices.require()
    index = devices.index_of(device)
    found = Device(index).properties()
    return DeviceProperties(
        index=index,
        name=found.name,
        uuid=found.uuid,
        stepping=found.stepping,
        firmware=found.firmware,
        driver=found.driver,
        total_memory=found.memory_bytes,
        multi_processor_count=found.cores,
        max_lanes=found.max_lanes,
        clock_hertz=found.clock_hertz,
    )


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name
