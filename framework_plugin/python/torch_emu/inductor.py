"""What torch.compile's default backend finds for this device: a clear refusal.

Inductor looks for these names in the device module. There is no code generation for the device yet,
so asking for it says what works instead.
"""

from __future__ import annotations

from typing import Any, NoReturn


class CodeGeneration:
    """Stands for each part of a code generator; making one is refused."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        self.create()

    @classmethod
    def create(cls, *_arguments: Any, **_named: Any) -> NoReturn:
        raise NotImplementedError(
            "torch.compile's default backend generates no code for the emu device yet; use "
            'torch.compile(model, backend="aot_eager"), which captures forward and backward and '
            "runs them on device programs"
        )


Scheduling = PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = CodeGeneration
