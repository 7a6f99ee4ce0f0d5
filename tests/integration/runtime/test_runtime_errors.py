"""An error names its cause and the command that failed, wherever it comes to light."""

from __future__ import annotations

from typing import Any

import pytest
from device_programs import EMPTY, WRITE, arguments

pytestmark = pytest.mark.integration

FAR = 1 << 36  # beyond what is allocated, within the context's addresses
BAD_WRITE = WRITE.replace("write", "bad_write")


def test_a_fault_names_the_command_at_a_later_call(emu: Any, device: Any) -> None:
    good = device.alloc(512)
    write, bad = emu.Module(0, WRITE), emu.Module(0, BAD_WRITE)
    stream = emu.Stream(0)
    for _ in range(3):
        write.launch((1, 1, 1), arguments(good, 1), stream)
    bad.launch((1, 1, 1), arguments(good + FAR, 1), stream)
    with pytest.raises(emu.errors.PageFaultError) as caught:
        stream.synchronize()
    error = caught.value
    assert error.program == "bad_write"
    assert error.command == 4
    assert error.stream == stream.id
    assert error.address == good + FAR
    assert error.scope == emu.errors.Scope.CONTEXT
    assert "bad_write" in str(error) and error.mend


def test_each_later_call_gives_the_same_fault_until_a_reset(emu: Any, device: Any) -> None:
    address = device.alloc(512)
    write = emu.Module(0, BAD_WRITE)
    write.launch((1, 1, 1), arguments(address + FAR, 1))
    with pytest.raises(emu.errors.PageFaultError):
        device.synchronize()
    calls = (
        lambda: write.launch((1, 1, 1), arguments(address, 1)),
        lambda: device.alloc(512),
        lambda: device.read(address, 4),
        lambda: device.write(address, b"1234"),
        lambda: emu.Event(0).record(),
        device.synchronize,
    )
    for call in calls:
        with pytest.raises(emu.errors.PageFaultError) as caught:
            call()
        assert caught.value.program == "bad_write"
        assert caught.value.command == 1
    device.reset()
    address = device.alloc(512)
    emu.Module(0, WRITE).launch((1, 1, 1), arguments(address, 5))
    assert device.read(address, 1) == b"\x05"


def test_a_stream_without_work_tells_of_the_lost_context_too(emu: Any, device: Any) -> None:
    idle, stream = emu.Stream(0), emu.Stream(0)
    emu.Module(0, BAD_WRITE).launch((1, 1, 1), arguments(device.alloc(512) + FAR, 1), stream)
    for wait in (stream.synchronize, idle.synchronize, device.synchronize):
        with pytest.raises(emu.errors.PageFaultError):
            wait()


def test_a_copy_to_nowhere_is_a_fault_without_a_program(emu: Any, device: Any) -> None:
    nowhere = device.alloc(512) + FAR
    with pytest.raises(emu.errors.PageFaultError) as caught:
        device.write(nowhere, b"1234")
        device.synchronize()
    assert caught.value.address == nowhere
    assert caught.value.program == ""


BLOCKING = """
import emu_runtime as emu
from emu_runtime.errors import PageFaultError
import array
text = {text!r}
device = emu.Device(0)
module = emu.Module(0, text)
try:
    module.launch((1, 1, 1), array.array("q", [1 << 36, 1]).tobytes())
    print("launch returned")
    device.synchronize()
except PageFaultError as error:
    print("fault of", error.program)
"""


@pytest.mark.parametrize(
    ("blocking", "said"),
    [("1", ["fault of bad_write"]), ("0", ["launch returned", "fault of bad_write"])],
)
def test_blocking_mode_points_at_the_call(script: Any, blocking: str, said: list[str]) -> None:
    done = script(BLOCKING.format(text=BAD_WRITE), EMURT_BLOCKING=blocking)
    assert done.stdout.splitlines() == said, done.stderr


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("  bogus.f32 v0, v1\n", "bogus"),
        ("", ""),
        (EMPTY.replace("  exit\n", ""), "exit"),
    ],
)
def test_a_bad_program_is_refused_with_its_cause(
    emu: Any, device: Any, text: str, cause: str
) -> None:
    for _ in range(2):  # the cache does not keep a failure
        with pytest.raises(emu.errors.BadProgramError) as caught:
            emu.Module(0, text)
        assert cause in caught.value.cause
    emu.Module(0, EMPTY)


def test_launch_refuses_what_does_not_fit(emu: Any, device: Any) -> None:
    module = emu.Module(0, WRITE)
    for grid, given in [((1, 1, 1), b""), ((0, 1, 1), arguments(0, 0)), ((1, 1, 1), bytes(8192))]:
        with pytest.raises(emu.errors.InvalidArgumentError):
            module.launch(grid, given)


def test_devices_that_are_not_there(emu: Any, device: Any) -> None:
    assert emu.device_count() == 1
    for index in (1, 63):
        with pytest.raises(emu.errors.EmuError) as caught:
            emu.Device(index).alloc(512)
        assert str(index) in str(caught.value)
    for index in (-1, 64, 2**31 - 1):
        with pytest.raises(emu.errors.InvalidArgumentError, match="expected 0 to 63"):
            emu.Device(index).alloc(512)


def test_null_and_unsized_results_are_refused(emu: Any, device: Any) -> None:
    api = emu.library.table()
    code = emu.errors.InvalidArgumentError.code
    assert api.device_count(None) == code
    assert api.memory_alloc(0, 512, None, None) == code
    assert api.device_properties(0, None) == code
    unsized = emu.interface.CMemoryStats()
    assert api.memory_stats(0, unsized) == code
    assert "size is 0, expected at least" in str(emu.library.last_error(api))


def test_an_interface_number_that_cannot_be_served(emu: Any, script: Any) -> None:
    done = script(
        "import ctypes\n"
        "from emu_runtime import interface, library\n"
        "get = ctypes.CDLL(str(library.library_path())).emurt_get_api\n"
        "get.restype = ctypes.c_void_p\n"
        "for number in (2000, 1999, 0):\n"
        "    error = interface.CError(size=ctypes.sizeof(interface.CError))\n"
        "    print(get(number, None, ctypes.byref(error)), error.status, error.cause.decode())\n"
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line, number in zip(lines, ("2.0", "1.999", "0.0"), strict=True):
        assert line.startswith("None 4 ")
        assert number in line and f"offers {emu.interface.MAJOR}.{emu.interface.MINOR}" in line


def test_without_a_driver_the_table_is_there_and_every_call_says_so(script: Any) -> None:
    done = script(
        "import ctypes\n"
        "from emu_runtime import interface, library\n"
        "library_ = ctypes.CDLL(str(library.library_path()))\n"
        "get = library_.emurt_get_api\n"
        "get.restype = ctypes.POINTER(interface.CApi)\n"
        "error = interface.CError(size=ctypes.sizeof(interface.CError))\n"
        "api = get(1000, b'/nowhere/libemudrv.so', ctypes.byref(error)).contents\n"
        "print(error.status)\n"
        "print(api.device_count(ctypes.byref(ctypes.c_uint32())))\n"
        "print(library.last_error(api))\n"
    )
    status, call, text = done.stdout.splitlines()
    assert (status, call) == ("100", "100")
    assert "/nowhere/libemudrv.so" in text and "pip install" in text


def test_a_number_that_does_not_fit_its_type_is_refused(emu: Any, device: Any) -> None:
    """ctypes would cut it: a read of -1 bytes wrote over the host's heap."""
    address = device.alloc(1 << 20)
    calls = (
        lambda: device.read(address, -1),
        lambda: device.fill(address, 256, 4),
        lambda: device.fill(address, -1, 4),
        lambda: device.fill(address, 1, -4),
        lambda: device.free(address + (1 << 64)),
        lambda: device.alloc(-1),
        lambda: emu.Device(1 << 32).properties(),
        lambda: emu.Stream(0, 1 << 31),
        lambda: emu.PinnedBuffer(-1),
    )
    for call in calls:
        with pytest.raises(emu.errors.InvalidArgumentError, match="expected a number from"):
            call()
    assert device.read(address, 4) == bytes(4)
    device.free(address)
