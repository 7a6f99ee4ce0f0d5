"""What torch.compile's default backend finds for this device: a clear refusal.

Inductor looks for these names in the device module. There is no code generation for the device yet,
so asking for it says what works instead.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "torch.compile's default backend generates no code for the emu device yet; use "
        'torch.compile(model, backend="aot_eager"), which captures forward and backward and '
        "runs them on device programs"
    )


class _Refusing(type):
    """Inductor asks a class what it can do before it makes one: that is refused as well."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()


class CodeGeneration(metaclass=_Refusing):
    """Stands for each part of a code generator; making or asking one is refused."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        _refuse()


Scheduling = PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = CodeGeneration
