"""What was saved on the device loads anywhere that the caller asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from child import run_python


def saved(device: str, folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    state = {"base": base, "view": base.t(), "half": base.half(), "mask": base > 4}
    path = folder / "state.pt"
    there = base.to(device)
    on_device = {"base": there, "view": there.t(), "half": there.half(), "mask": there > 4}
    torch.save(on_device, path)
    return path, state


@pytest.mark.check("gate1.serialization.roundtrip", obligations=["G1", "E6"], kind="focused test")
def test_roundtrip(device: str, tmp_path: Path) -> None:
    """`torch.save` leaves a truncated file, or a form of `map_location` is ignored."""
    path, state = saved(device, tmp_path)
    places: list[Any] = [None, device, torch.device(device, 0) if device != "cpu" else "cpu"]
    places += ["cpu", lambda storage, place: storage]
    places += [{f"{device}:0": "cpu", device: "cpu"}]
    homes = [device] * 3 + ["cpu"] * 3
    for place, home in zip(places, homes, strict=True):
        loaded = torch.load(path, map_location=place, weights_only=not callable(place))
        for name, expected in state.items():
            assert loaded[name].device.type == home, (place, name)
            assert loaded[name].stride() == expected.stride(), (place, name)
            assert torch.equal(loaded[name].cpu(), expected), (place, name)
        same = loaded["base"].untyped_storage().data_ptr()
        assert loaded["view"].untyped_storage().data_ptr() == same, "a shared storage came apart"


@pytest.mark.check("gate1.serialization.plain_torch", obligations=["G1", "E6"], kind="focused test")
def test_without_plugin(device: str, tmp_path: Path) -> None:
    """A checkpoint from the device cannot be read on a machine without the plugin."""
    path, _ = saved(device, tmp_path)
    done = run_python(
        """
        import sys, torch
        assert not hasattr(torch, "emu"), "the plugin was loaded after all"
        state = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
        print(state["view"].tolist())
        """,
        str(path),
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert done.status == 0, done.told
    assert done.stdout.strip() == str(torch.arange(12.0).reshape(3, 4).t().tolist())


@pytest.mark.check("gate1.serialization.missing_index", obligations=["G1"], kind="focused test")
def test_missing_index(accelerator: str, tmp_path: Path) -> None:
    """Loading for a device index that is not there gives a message that helps nobody."""
    path, _ = saved(accelerator, tmp_path)
    count = torch.get_device_module(accelerator).device_count()
    with pytest.raises(RuntimeError) as raised:
        torch.load(path, map_location=f"{accelerator}:{count + 6}", weights_only=True)
    text = str(raised.value)
    assert str(count + 6) in text, text
    assert str(count) in text.replace(str(count + 6), ""), f"the number of devices: {text}"
