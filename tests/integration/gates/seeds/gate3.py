"""Seeds of gate 3."""

from __future__ import annotations

from typing import Any

from seeds.seed import Seed, wrap


def uncompiled(original: Any, model: Any, **keywords: Any) -> Any:
    return model


def scaled(original: Any, model: Any, **keywords: Any) -> Any:
    compiled = original(model, **keywords)
    return lambda *arguments: compiled(*arguments) * (1 + 1e-6)


def static(original: Any, model: Any, **keywords: Any) -> Any:
    return original(model, **{**keywords, "dynamic": False})


def bare_error(original: Any, model: Any, **keywords: Any) -> Any:
    def call(*arguments: Any) -> Any:
        raise RuntimeError("error")

    return original(model, **keywords) if "backend" in keywords else call


SEEDS: dict[str, Seed] = {
    "gate3.capture.aot_eager": wrap("torch.compile", uncompiled),
    "gate3.capture.parity": wrap("torch.compile", scaled),
    "gate3.capture.views": wrap("torch.compile", scaled),
    "gate3.capture.dynamic_shapes": wrap("torch.compile", static),
    "gate3.compile.default_is_honest": wrap("torch.compile", bare_error),
}
