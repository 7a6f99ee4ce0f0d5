"""Tests of the installed plugin: they run where torch-emu and torch are installed."""

from __future__ import annotations

import os

import pytest

os.environ["TORCH_EMU_FALLBACK"] = "error"  # read when torch is imported

pytest.importorskip("torch", reason="torch and the three wheels have to be installed")
pytest.importorskip("torch_emu", reason="torch-emu has to be installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integration/plugin" in item.path.as_posix():
            item.add_marker(pytest.mark.integration)
