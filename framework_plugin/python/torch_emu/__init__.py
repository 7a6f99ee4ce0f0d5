"""PyTorch backend of the emulated accelerator: device `emu`, module `torch.emu`.

PyTorch loads it through the entry point `torch.backends`; `import torch_emu` does the same where
autoload is off. `import torch` never fails because of this package and opens no device: what is
missing is kept, told by `torch.emu.diagnose()`, and raised by the first use of the device.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _autoload() -> None:
    """Entry point of `torch.backends`."""
    try:
        from torch_emu import registration
    except ImportError as error:  # an installer that was killed left a part of this package
        import warnings

        warnings.warn(
            f"torch-emu is damaged, and there is no device `emu`: {error}. "
            "Run: pip install --force-reinstall --no-deps torch-emu",
            stacklevel=2,
        )
        return
    registration.register()


# Below, since importing torch may call `_autoload` while this module is still being imported.
import torch  # noqa: E402

if hasattr(torch, "compile"):
    _autoload()
elif not getattr(torch.__spec__, "_initializing", False):
    raise ImportError(
        f"{torch!r} is not PyTorch, and is found before it. Take it out of PYTHONPATH or of the "
        "folder that Python is started in"
    )
# Where torch is still being imported it calls the entry point itself when it is complete.
