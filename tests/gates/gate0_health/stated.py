"""What driver_shim/spec states and these checks hold the device to; a test compares the two."""

ERRATA: dict[str, list[str]] = {"A0": ["argument-tail"], "A1": []}
"""Of each stepping, by the names of machine.toml."""

BOUNDS = {
    "exp": (2, 2),
    "log": (2, 2),
    "tanh": (3, 3),
    "exp2": (1, 2),
    "log2": (1, 2),
    "log1p": (1, 2),
    "expm1": (1, 2),
    "sin": (1, 1),
    "cos": (1, 1),
    "erf": (1, 2),
    "rsqrt": (0.5, 1),
}
"""Of each function in units in the last place, f32 and f64, as isa.toml has them."""
