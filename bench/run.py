"""Measure the README's figures with the installed wheels: a table, or `--json`.

Exit status 0 when every bound is kept, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

os.environ["TORCH_EMU_FALLBACK"] = "error"  # a figure of the host's operators would mean nothing
# PyTorch's threads would go on spinning in the device's turn, and take the cores from it.
os.environ["OMP_WAIT_POLICY"] = "passive"
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # of malloc.h

DISTRIBUTIONS = ("emu-driver-shim", "emu-runtime", "torch-emu", "torch")


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()

    import figures  # after the arguments: it imports torch and opens the device
    import torch

    # The device's allocator keeps what it gave out. So does the host's, with this.
    allocator = ctypes.CDLL(None)
    if not all(allocator.mallopt(what, 32 << 20) for what in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)):
        raise RuntimeError("mallopt refused what the figures need: expected glibc's")
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    with figures.echo() as round_trip:
        measured = [figures.launch_and_wait(round_trip), figures.enqueue(round_trip)]
    measured += [figures.pinned_copy(), *figures.operators()]
    kept = all(figure.kept for figure in measured)
    host = {
        "processor": processor(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in DISTRIBUTIONS},
    }
    if arguments.json:
        rows = [{**asdict(figure), "kept": figure.kept} for figure in measured]
        print(json.dumps({"host": host, "figures": rows, "kept": kept}, indent=2))
        return 0 if kept else 1
    print(f"{host['processor']}, {threads} threads, torch {torch.__version__}")
    for figure in measured:
        sign = "at most" if figure.at_most else "at least"
        word = "kept  " if figure.kept else "MISSED"
        print(
            f"{word}  {figure.what}: {figure.value:.3g} {figure.unit} ({sign} {figure.bound:g}); "
            f"{figure.ours * 1e6:,.0f} µs against {figure.theirs * 1e6:,.0f} µs for "
            f"{figure.against}, medians of {figure.rounds}"
        )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
