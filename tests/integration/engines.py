"""The checkout, and the engines that this machine has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qualify import engine
from qualify.engine import Engine
from qualify.errors import EngineError

TREE = Path(__file__).parents[2]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def engine_or_skip(kind: str) -> Engine:
    try:
        return engine.choose(kind)
    except EngineError as error:
        pytest.skip(str(error))
