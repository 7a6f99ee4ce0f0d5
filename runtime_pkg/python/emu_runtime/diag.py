"""emu-diag: does this installation, and the device behind it, work? Torch is never imported.

    emu-diag [--level 1|2|3] [--device N] [--memory MIB] [--json]

Level 1 takes seconds, level 2 about a minute, level 3 uses the whole machine. Exit status: 0 all
steps passed, 1 a step failed, 2 the diagnosis could not run (wrong command line, or a fault of its
own).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from emu_runtime import bounded, diag_device, diag_install
from emu_runtime.diag_memory import CHUNK, MIB
from emu_runtime.diagnosis import Outcome, Plan, Result, run

_MARKS = {Outcome.PASSED: "passed", Outcome.FAILED: "FAILED", Outcome.NOT_RUN: "not run"}


def line(result: Result) -> str:
    """One step for a person: outcome, name, seconds, then what was found or measured."""
    text = f"{_MARKS[result.outcome]:8} {result.name:20} {result.seconds:7.2f} s"
    if result.outcome is Outcome.PASSED:
        told = ", ".join(f"{name} {value}" for name, value in result.figures.items())
        return f"{text}  {told}".rstrip()
    lines = [f"{text}  {result.cause}"]
    if result.mend:
        lines.append(f"{'':8} mend: {result.mend}")
    return "\n".join(lines)


def as_data(level: int, results: Sequence[Result]) -> dict[str, object]:
    return {
        "level": level,
        "passed": all(result.outcome is Outcome.PASSED for result in results),
        "steps": [
            {
                "name": result.name,
                "outcome": result.outcome.value,
                "seconds": round(result.seconds, 6),
                "cause": result.cause,
                "mend": result.mend,
                "figures": result.figures,
            }
            for result in results
        ],
    }


def _memory(text: str) -> int:
    """Bytes, of MiB."""
    if not (text.isascii() and text.isdigit()) or int(text) * MIB < CHUNK:
        raise argparse.ArgumentTypeError(
            f"expected a number of MiB from {CHUNK // MIB}, got {text}"
        )
    return int(text) * MIB


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="emu-diag", description="Does the installation, and the device behind it, work?"
    )
    parser.add_argument(
        "--level", type=int, choices=(1, 2, 3), default=1, help="seconds, a minute, or long"
    )
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which device")
    parser.add_argument(
        "--memory", type=_memory, metavar="MIB", help="at most so much device memory for level 3"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    return bounded.program("emu-diag", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    def tell(result: Result) -> None:
        if not options.json:
            print(line(result), flush=True)

    plan = Plan(options.device, options.level, options.memory)
    steps = [*diag_install.STEPS, *diag_device.steps(plan)]
    try:
        results = run(steps, tell)
    except OSError:  # of what is written
        raise
    except Exception as error:
        print(f"emu-diag could not run: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    count = {kind: sum(result.outcome is kind for result in results) for kind in Outcome}
    if options.json:
        print(json.dumps(as_data(options.level, results), indent=2))
    else:
        print(", ".join(f"{number} {kind.value}" for kind, number in count.items()))
    return 0 if count[Outcome.PASSED] == len(results) else 1
