"""What commands print at several widths, as a test expects it: ``python -m tests.cli.terminal.generate`` writes it.

Read what changed before you commit it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
COMMANDS = {
    "karate": "certify karate --quiet",
    "karate-one-model": "certify karate --per-class 4 --C 10 --beside none --quiet",
    "karate-recheck": "recheck karate --per-class 4 --C 10 --flips 2 --confirm 3 --quiet",
    "nothing-proved": "certify karate --per-class 4 --C 10 --beside none --engine relaxed --time-limit 1e-6 --quiet",
}
WIDTHS = (60, 80, 120, None)
"""Columns of the terminal; None where there is none."""


def file_of(name: str, width: int | None) -> Path:
    """Where the output is kept."""
    return HERE / f"{name}-{'piped' if width is None else width}.txt"


def plain(printed: str) -> str:
    """The output without colours, durations, and blanks at the end of lines."""
    text = re.sub(r"\x1b\[[\d;]*m", "", printed)
    text = re.sub(r"\d+\.\d+ s(\s+\(and\s+\d+\s+s\s+of\s+compiling\))?", "_ s", text)
    # Where the line with the duration is broken depends on the duration.
    text = re.sub(r"\n(?:exact|lower bounds)[ ;].*?cross-validated\s[\d.]+ %", _one_line, text, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _one_line(found: re.Match[str]) -> str:
    return "\n" + " ".join(found[0].split())


def printed(command: str, width: int | None) -> str:
    """What a command prints in a terminal of some width, or into a pipe."""
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    environment |= {} if width is None else {"COLUMNS": str(width), "FORCE_COLOR": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "labelcert", *command.split()],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
        env=environment,
    )
    return plain(done.stdout)


if __name__ == "__main__":
    for name, command in COMMANDS.items():
        for width in WIDTHS:
            file_of(name, width).write_text(printed(command, width), encoding="utf-8")
