"""Steps of emu-diag on the state of the device: firmware, condition, telemetry."""

from __future__ import annotations

from emu_runtime.device import Device, Telemetry, Throttle
from emu_runtime.diagnosis import Figures, Finding, Plan
from emu_runtime.figures import KINDS, throttle_name

_MENDS: dict[int, str] = {
    Throttle.THERMAL: "Let it cool down, give it more air, or choose a lower power mode: "
    "emu-smi --set-power-mode eco",
    Throttle.FAULT: "Take back the injected fault: emu-fault clear",
    Throttle.TRIP: "Reset the device, which lets it cool down first: emu-fw reset",
}
_INSTALL = "Write a good image into it: emu-fw install IMAGE"


def firmware(plan: Plan) -> Figures:
    """What runs came from a slot, and what the other slot holds could be started."""
    # Not above: the diagnosis runs without that package too.
    from emu_driver_shim import driver
    from emu_driver_shim.firmware import SlotState

    try:
        with driver.Device(plan.device) as device:
            found = device.firmware()
    except driver.DriverError as error:
        raise Finding(error.cause, error.mend) from error
    states = []
    for number, slot in enumerate(found.slots):
        state = SlotState(slot.state)
        states.append(state.name.lower())
        if state in (SlotState.INVALID, SlotState.REFUSED):
            cause = slot.cause.decode(errors="replace")
            raise Finding(f"firmware slot {number} is {states[-1]}: {cause}", _INSTALL)
    if found.active == driver.NO_SLOT:
        raise Finding("no slot could be started, and the built-in firmware runs", _INSTALL)
    return {"version": found.version.decode(), "slots": ", ".join(states)}


def condition(plan: Plan) -> Figures:
    """It is not throttled, and no memory error went uncorrected."""
    now = Device(plan.device).telemetry()
    if now.throttle:
        raise Finding(
            f"the device is throttled ({throttle_name(now)}) at {now.temperature_celsius:.0f} "
            f"degrees Celsius: its cores run at {now.clock_hertz / 1e6:.0f} MHz",
            _MENDS.get(now.throttle, "Look into the event log: emu-fw events"),
        )
    if now.ecc_uncorrected:
        raise Finding(
            f"{now.ecc_uncorrected} errors of device memory could not be corrected",
            "Replace the device if the count grows: it is since emud started, resets leave it",
        )
    return {
        "celsius": round(now.temperature_celsius, 1),
        "watts": round(now.power_watts, 1),
        "corrected": now.ecc_corrected,
    }


def telemetry(plan: Plan) -> Figures:
    """The parts of what is told add up to its sums."""
    now = Device(plan.device).telemetry()
    for whole, parts in _sums(now).items():
        got = sum(getattr(now, part) for part in parts)
        if got != getattr(now, whole):
            raise Finding(f"{whole} is {getattr(now, whole)}, its parts add up to {got}")
    if now.launches <= 0 or now.commands < now.launches:
        raise Finding(f"of {now.commands} commands {now.launches} were launches")
    return {"commands": now.commands, "launches": now.launches, "faults": now.faults}


def _sums(now: Telemetry) -> dict[str, list[str]]:
    return {
        "device_ticks": [f"spent_{kind}_ticks" for kind in KINDS],
        "copy_ticks": ["to_device_ticks", "from_device_ticks", "on_device_ticks"],
    }
