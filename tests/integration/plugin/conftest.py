"""Tests of the installed plugin. They run where torch-emu is installed: `../test_plugin.py` takes
them into a room, and elsewhere they are not collected.
"""

from __future__ import annotations

import importlib.util
import os

os.environ["TORCH_EMU_FALLBACK"] = "error"  # read when torch is imported

collect_ignore_glob = [] if importlib.util.find_spec("torch_emu") else ["test_*.py"]
