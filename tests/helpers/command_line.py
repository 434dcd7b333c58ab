"""The command line as a process of its own, and what it returns inside this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Call = Callable[..., tuple[int, str, str]]
"""Arguments in; exit code, standard output and standard error out."""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """One command in a fresh process."""
    code = "from labelcert.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=cwd
    )
