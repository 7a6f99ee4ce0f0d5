"""Seeds of the checks of installs that no resolver would leave: what is wrong, or mends it, is not
told."""

from __future__ import annotations

from pathlib import Path

from seeds.scenarios import after
from seeds.seed import Seed


def edited(module: str, old: str, new: str) -> Seed:
    """The runtime that `installer` brings has another text in one of its modules."""

    def edit(site: Path) -> None:
        path = site / "emu_runtime" / module
        text = path.read_text()
        assert old in text, f"{path} has no {old!r} to exchange"
        path.write_text(text.replace(old, new))

    return after("installer", edit)


SEEDS: dict[str, Seed] = {
    "gate7.diagnosis.mixed": edited(
        "diag_install.py", "versions.require_runtime(versions.plugin_needs())", "pass"
    ),
    "gate7.diagnosis.unrecorded": edited(
        "versions.py", 'read_text("RECORD") is not None', 'read_text("METADATA") is not None'
    ),
}
