"""The plugin's native overloads that write to a tensor or take several, and arguments for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

COLUMNS = 6


@dataclass(frozen=True)
class Overload:
    """One overload of an operator, such as `aten::add.out`."""

    name: str
    operator: Any
    outputs: tuple[str, ...]
    make: Callable[[str, int], list[Any]]
    keywords: dict[str, Any]

    @property
    def in_place(self) -> bool:
        return self.name.split(".")[0].endswith("_")

    @property
    def writes(self) -> bool:
        """To a tensor that it is given."""
        return self.in_place or bool(self.outputs)

    def arguments(self, device: str, rows: int) -> list[Any]:
        return self.make(device, rows)

    def call(self, arguments: list[Any], written: list[torch.Tensor]) -> list[torch.Tensor]:
        """What it gives back."""
        outputs = dict(zip(self.outputs, written, strict=False))
        given = self.operator(*arguments, **self.keywords, **outputs)
        return [given] if isinstance(given, torch.Tensor) else list(given)

    def results(self, arguments: list[Any]) -> list[torch.Tensor]:
        """New tensors as the operator makes them, by calling it on empty outputs."""
        indices = ("indices", "min_indices", "max_values")
        kinds = [torch.int64 if name in indices else None for name in self.outputs]
        for dtype in (torch.float32, torch.int64, torch.bool):
            written = [torch.empty(0, dtype=kind or dtype) for kind in kinds]
            try:
                self.call(arguments, written)
            except RuntimeError:
                continue
            return written
        raise AssertionError(f"{self.name}: no dtype of an output is right")

    def tensors(self, arguments: list[Any]) -> list[torch.Tensor]:
        found = []
        for one in arguments:
            found += one if isinstance(one, list) else [one]
        return [one for one in found if isinstance(one, torch.Tensor)]

    def precision(self, arguments: list[Any]) -> float:
        """The unit of the widest float that goes in, f32 at least: that of the computation."""
        wide = any(one.dtype is torch.float64 for one in self.tensors(arguments))
        return torch.finfo(torch.float64 if wide else torch.float32).eps

    def exchange(self, arguments: list[Any], old: torch.Tensor, new: torch.Tensor) -> None:
        for place, one in enumerate(arguments):
            if one is old:
                arguments[place] = new
            elif isinstance(one, list):
                arguments[place] = [new if item is old else item for item in one]


def numbers(device: str, *shape: int, seed: int = 1) -> torch.Tensor:
    """Values between 0.5 and 2, so that every function is defined there."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) * 1.5 + 0.5).to(device)


def integers(device: str, *shape: int, below: int = 4) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 3 % max(below, 1)).view(shape).to(device)


def mask(device: str, *shape: int) -> torch.Tensor:
    return integers(device, *shape, below=2).bool()


def _cell(gates: int) -> Callable[[str, int], list[Any]]:
    return lambda d, n: [
        *(numbers(d, n, gates * 3, seed=seed) for seed in (1, 2)),
        numbers(d, n, 3, seed=3),
        *(numbers(d, gates * 3, seed=seed) for seed in (4, 5)),
    ]


def _bits(d: str, n: int) -> list[Any]:
    return [integers(d, n, COLUMNS, below=7), integers(d, n, COLUMNS, below=3)]


def _index(d: str, n: int) -> list[Any]:
    return [numbers(d, n + 1, COLUMNS), [integers(d, n, below=n)]]


# By the operator's name, where the schema alone does not tell what makes sense.
MAKERS: dict[str, Callable[[str, int], list[Any]]] = {
    "_index_put_impl_": lambda d, n: [
        numbers(d, n + 1, COLUMNS),
        [integers(d, n, below=n)],
        numbers(d, n, COLUMNS, seed=2),
    ],
    "_log_softmax": lambda d, n: [numbers(d, n, COLUMNS), 1, False],
    "_log_softmax_backward_data": lambda d, n: [
        numbers(d, n, COLUMNS),
        -numbers(d, n, COLUMNS, seed=2),
        1,
        torch.float32,
    ],
    "_softmax": lambda d, n: [numbers(d, n, COLUMNS), 1, False],
    "_softmax_backward_data": lambda d, n: [
        numbers(d, n, COLUMNS),
        numbers(d, n, COLUMNS, seed=2),
        1,
        torch.float32,
    ],
    "_thnn_fused_gru_cell": _cell(3),
    "_thnn_fused_gru_cell_backward": lambda d, n: [
        numbers(d, n, 3),
        numbers(d, n, 15, seed=2),
        True,
    ],
    "_thnn_fused_lstm_cell": _cell(4),
    "_thnn_fused_lstm_cell_backward_impl": lambda d, n: [
        *(numbers(d, n, 3, seed=seed) for seed in range(4)),
        numbers(d, n, 12, seed=5),
        True,
    ],
    "addmm": lambda d, n: [numbers(d, n, 5), numbers(d, n, 3), numbers(d, 3, 5)],
    "arange": lambda d, n: [0, n, 1],
    "baddbmm": lambda d, n: [numbers(d, 2, n, 5), numbers(d, 2, n, 3), numbers(d, 2, 3, 5)],
    "bitwise_and": _bits,
    "bitwise_left_shift": _bits,
    "bitwise_not": lambda d, n: _bits(d, n)[:1],
    "bitwise_or": _bits,
    "bitwise_right_shift": _bits,
    "bitwise_xor": _bits,
    "bmm": lambda d, n: [numbers(d, 2, n, 3), numbers(d, 2, 3, 5)],
    "cat": lambda d, n: [[numbers(d, n, COLUMNS), numbers(d, n, 2, seed=2)], 1],
    "dot": lambda d, n: [numbers(d, n), numbers(d, n, seed=2)],
    "fill": lambda d, n: [numbers(d, n, COLUMNS)],
    "gather": lambda d, n: [numbers(d, n, COLUMNS), 1, integers(d, n, COLUMNS)],
    "index": _index,
    "index_select": lambda d, n: [numbers(d, n, COLUMNS), 1, integers(d, 5)],
    "masked_fill": lambda d, n: [numbers(d, n, COLUMNS), mask(d, n, COLUMNS)],
    "mm": lambda d, n: [numbers(d, n, 3), numbers(d, 3, 5)],
    "mse_loss_backward": lambda d, n: [
        numbers(d),
        numbers(d, n, COLUMNS),
        numbers(d, n, COLUMNS, seed=2),
        1,
    ],
    "mv": lambda d, n: [numbers(d, n, 3), numbers(d, 3, seed=2)],
    "native_layer_norm": lambda d, n: [
        numbers(d, n, COLUMNS),
        [COLUMNS],
        numbers(d, COLUMNS, seed=2),
        numbers(d, COLUMNS, seed=3),
        1e-5,
    ],
    "native_layer_norm_backward": lambda d, n: [
        *(numbers(d, n, COLUMNS, seed=seed) for seed in (1, 2)),
        [COLUMNS],
        *(numbers(d, n, 1, seed=seed) for seed in (3, 4)),
        *(numbers(d, COLUMNS, seed=seed) for seed in (5, 6)),
        [True, True, True],
    ],
    "nll_loss_backward": lambda d, n: [
        numbers(d),
        -numbers(d, n, COLUMNS),
        integers(d, n),
        numbers(d, COLUMNS, seed=2),
        1,
        -100,
        numbers(d, seed=3),
    ],
    "nll_loss_forward": lambda d, n: [
        -numbers(d, n, COLUMNS),
        integers(d, n),
        numbers(d, COLUMNS, seed=2),
        1,
        -100,
    ],
    "resize": lambda d, n: [numbers(d, n, COLUMNS), [2, n]],
    "scatter": lambda d, n: [numbers(d, n, COLUMNS), 1, integers(d, n, 1)],
    "set": lambda d, n: [numbers(d, n, COLUMNS)],
    "where": lambda d, n: [
        mask(d, n, COLUMNS),
        numbers(d, n, COLUMNS),
        numbers(d, n, COLUMNS, seed=2),
    ],
}
# What a schema's argument is where it has no default.
DEFAULTS: dict[str, Any] = {
    "number": 2,
    "Optional[number]": 1,
    "Optional[int]": 1,
    "int": 1,
    "List[int]": [1],
    "Optional[List[int]]": [1],
    "bool": False,
    "str": "floor",
    "Optional[str]": "floor",
}
# The CPU's own kernels of these take any output for a contiguous one, and write out of its bounds.
UNSOUND_ON_CPU = ("_log_softmax", "_softmax")
# They take storage instead of values, change a shape, or are GradScaler's own, of one value each:
# not written to element by element.
NOT_WRITTEN = (
    "aten::set_",
    "aten::resize_",
    "aten::_amp_update_scale_",
    "aten::_amp_foreach_non_finite_check_and_unscale_",
)


def _maker(name: str, schema: Any) -> Callable[[str, int], list[Any]]:
    base = name.removeprefix("aten::").split(".")[0]
    known = MAKERS.get(base) or MAKERS.get(base.removesuffix("_"))
    inputs = [argument for argument in schema.arguments if not argument.is_out]

    def make(device: str, rows: int) -> list[Any]:
        made = known(device, rows) if known else []
        for seed, argument in list(enumerate(inputs))[len(made) :]:
            kind = str(argument.type)
            if kind in ("Tensor", "Optional[Tensor]"):
                scalar = base in ("fill_", "masked_fill_")
                shape = () if scalar else (rows, COLUMNS)
                made.append(numbers(device, *shape, seed=seed + 1))
            elif argument.kwarg_only or (argument.has_default_value() and kind not in DEFAULTS):
                break
            else:
                made.append(DEFAULTS[kind])
        return made

    return make


# No operators on values of tensors, or no kernel of the device (a convolution).
LEFT_OUT = (
    "aten::convolution_overrideable",
    "aten::convolution_backward_overrideable",
    *NOT_WRITTEN,
)


def _find() -> dict[str, Overload]:
    found = {}
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
        schema = torch._C._get_schema(*[*name.split("."), ""][:2])
        base = name.split(".")[0]
        outputs = tuple(argument.name for argument in schema.arguments if argument.is_out)
        kinds = [str(one.type) for one in schema.arguments if "Tensor" in str(one.type)]
        several = len(kinds) > 1 or "List" in "".join(kinds)
        wanted = several or outputs or base.endswith("_")
        if not (base.startswith("aten::") and wanted) or base in LEFT_OUT:
            continue
        packet = getattr(torch.ops.aten, base.removeprefix("aten::"))
        operator = getattr(packet, schema.overload_name or "default")
        keywords = {"rounding_mode": "floor"} if "mode" in schema.overload_name else {}
        if base in ("aten::gelu", "aten::gelu_"):
            keywords["approximate"] = "tanh"  # the one that is implemented
        found[name] = Overload(name, operator, outputs, _maker(name, schema), keywords)
    return dict(sorted(found.items()))


ALL = _find()
OVERLOADS = {name: overload for name, overload in ALL.items() if overload.writes}
