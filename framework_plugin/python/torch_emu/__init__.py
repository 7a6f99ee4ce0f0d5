"""PyTorch backend of the emulated accelerator: device `emu`, module `torch.emu`.

PyTorch loads it through the entry point `torch.backends`; `import torch_emu` does the same where
autoload is off. `import torch` never fails because of this package and opens no device: what is
missing is kept, told by `torch.emu.diagnose()`, and raised by the first use of the device.
"""

from __future__ import annotations

import torch

from torch_emu import registration

__version__ = "0.1.0"


def _autoload() -> None:
    """Entry point of `torch.backends`."""
    registration.register()


# PyTorch calls the entry point at the end of its own import; here torch is complete, or is
# importing us from there.
if hasattr(torch, "_register_device_module"):
    _autoload()
