"""The one exception tree.

"This wheel is bad" is a value (a check outcome, a finding). "I could not find
out" is an exception of this tree. A message says what happened, what was
expected against what was found, and what to do. Each class has its own exit
status, so that a script can tell the causes apart.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import ClassVar


class QualifyError(Exception):
    """Root of the tree. `exit_status` is what the command line exits with."""

    exit_status: ClassVar[int] = 10

    def __init__(self, what: str, *, expected: str = "", got: str = "", mend: str = "") -> None:
        self.what = what
        self.expected = expected
        self.got = got
        self.mend = mend
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.what
        if self.expected or self.got:
            text += f": expected {self.expected}, got {self.got}"
        if self.mend:
            text += f". {self.mend}"
        return text


def of_status(status: int) -> type[QualifyError]:
    """The class whose exit status this is; the root of the tree where none has it."""
    known = {each.exit_status: each for each in QualifyError.__subclasses__()}
    return known.get(status, QualifyError)


class InputError(QualifyError):
    """A file or an argument given by a person is not what it must be."""

    exit_status = 11


class HostError(QualifyError):
    """This machine lacks something that the work needs (compiler, interpreter, disk)."""

    exit_status = 12


class EngineError(QualifyError):
    """A container engine is there but does not do what it was asked."""

    exit_status = 13


class BuildError(QualifyError):
    """A wheel could not be built or repaired."""

    exit_status = 14


class RoomError(QualifyError):
    """A room could not be made, died, or could not be reached."""

    exit_status = 15


class EvidenceError(QualifyError):
    """A record, an index or a check report cannot be read."""

    exit_status = 16


class ChangedError(QualifyError):
    """Something changed while a run was using it, so that the run would say nothing about it."""

    exit_status = 17


_ELSEWHERE = "with QUALIFY_CACHE and --evidence"
_MENDS = {
    errno.EACCES: f"Give this user the right to it, or name a folder of its own {_ELSEWHERE}",
    errno.ENOENT: "If it was there, something removed it during the run: run again",
    errno.ENOSPC: f"Free some disk, or name folders on a larger one {_ELSEWHERE}",
    errno.EROFS: f"Name folders that can be written {_ELSEWHERE}",
}
_NO_FOLDER = f"Name another folder {_ELSEWHERE}"
_MENDS |= dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP), _NO_FOLDER)
_MENDS |= {errno.EPERM: _MENDS[errno.EACCES], errno.EDQUOT: _MENDS[errno.ENOSPC]}


@contextlib.contextmanager
def host_errors(what: str) -> Iterator[None]:
    """What the operating system refuses inside is a HostError: `what`, the cause, and a mend.

    An OSError that has no mend here is a fault of ours, and comes through as it is.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _MENDS:
            raise
        raise HostError(f"{what}: {error}", mend=_MENDS[error.errno]) from error
