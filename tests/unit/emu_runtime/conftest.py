"""The package's Python files from the source tree: what needs no built library."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "runtime_pkg" / "python"))
