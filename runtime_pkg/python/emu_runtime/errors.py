"""One exception tree: a class for each status of the driver and runtime interfaces.

An error carries what the C interface tells: status, scope (what has to be given up to go on), the
command that failed where one did, the cause and the mend.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Scope(enum.IntEnum):
    """What has to be given up to go on, smallest first."""

    COMMAND = 0
    QUEUE = 1
    CONTEXT = 2
    DEVICE = 3
    HOST = 4


class EmuError(RuntimeError):
    """Root of the tree; itself raised only for a status that this version does not know."""

    code: ClassVar[int] = -1

    def __init__(
        self,
        cause: str,
        *,
        mend: str = "",
        status: int | None = None,
        scope: Scope = Scope.HOST,
        device: int = -1,
        stream: int | None = None,
        command: int = 0,
        address: int = 0,
        program: str = "",
    ) -> None:
        self.cause = cause
        self.mend = mend
        self.status = self.code if status is None else status
        self.scope = scope
        self.device = device
        self.stream = stream
        self.command = command
        self.address = address
        self.program = program
        super().__init__(str(self))

    def __str__(self) -> str:
        place = [f"device {self.device}"] if self.device >= 0 and self.command else []
        if self.command:
            place += [f"stream {self.stream}"] if self.stream is not None else []
            place += [f"command {self.command}"]
            place += [f"program {self.program}"] if self.program else []
        text = self.cause + (f" [{', '.join(place)}]" if place else "")
        return f"{text}. {self.mend}" if self.mend else text


class InvalidArgumentError(EmuError):
    code = 1


class NoDeviceError(EmuError):
    code = 2


class PermissionDeniedError(EmuError):
    code = 3


class VersionError(EmuError):
    code = 4


class OutOfMemoryError(EmuError):
    code = 5


class BadProgramError(EmuError):
    code = 6


class FaultError(EmuError):
    """A command could not be done; what its scope says is lost."""


class PageFaultError(FaultError):
    code = 7


class MisalignedError(FaultError):
    code = 8


class IllegalCommandError(FaultError):
    code = 9


class BudgetError(FaultError):
    code = 10


class LaunchTimeoutError(FaultError):
    """A program took longer on the host than one launch may."""

    code = 17


class OutOfBoundsError(FaultError):
    """A lane's index is outside of what its instruction was given."""

    code = 18


class BitError(FaultError):
    """A page that was read has a bit error that cannot be corrected."""

    code = 22


class WaitTimeoutError(EmuError):
    code = 11


class ContextLostError(EmuError):
    code = 12


class DeviceLostError(EmuError):
    code = 13


class StaleHandleError(EmuError):
    code = 14


class NotSupportedError(EmuError):
    code = 15


class HostError(EmuError):
    code = 16


class BadFirmwareError(EmuError):
    """A firmware image is damaged, cut short or not signed, or a slot has none to start."""

    code = 19


class RollbackError(EmuError):
    """A firmware image is older than the device may start again."""

    code = 20


class QueueLostError(EmuError):
    """An earlier fault ended the stream's queue, or a reset gave the command up."""

    code = 21


class ThermalTripError(EmuError):
    """The device was too hot, and stopped until it is reset."""

    code = 23


class FirmwareCrashError(EmuError):
    """The firmware of the device ended, and every context with it; a reset starts it again."""

    code = 24


class CancelledError(EmuError):
    """Of an activity record: the command was taken back."""

    code = 25


class FenceBrokenError(EmuError):
    """A fence will not reach the value that is waited for: who could signal it is gone."""

    code = 26


class LinkDownError(EmuError):
    """The link that a copy takes to another device is down."""

    code = 27


class NoDriverError(EmuError):
    code = 100


class ForkedError(EmuError):
    code = 101


class ShutDownError(EmuError):
    code = 102


def _leaves(root: type[EmuError]) -> list[type[EmuError]]:
    below = root.__subclasses__()
    return [leaf for kind in below for leaf in _leaves(kind)] if below else [root]


BY_STATUS: dict[int, type[EmuError]] = {kind.code: kind for kind in _leaves(EmuError)}
