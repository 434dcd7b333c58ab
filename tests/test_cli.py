from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from labelcert.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


def test_demo_prints_both_tables_and_saves(tmp_path: Path) -> None:
    out = tmp_path / "demo.cert"
    result = run("demo", "--labels", "10", "--nodes", "4", "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert "Fewest flipped labels" in result.stdout
    assert "Predictions that provably survive" in result.stdout
    assert "\x1b[" not in result.stdout
    shown = run("show", str(out))
    assert shown.returncode == 0
    assert shown.stdout == result.stdout


def test_errors_are_one_line_with_exit_codes(tmp_path: Path) -> None:
    missing = run("show", str(tmp_path / "nothing"))
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    assert "Traceback" not in missing.stderr
    large = run("demo", "--labels", "60")
    assert large.returncode == 3
    assert "max_flips=" in large.stderr
    assert run("demo", "--labels", "many").returncode == 2


def test_selfcheck_command() -> None:
    result = run("selfcheck", "--problems", "5", "--largest", "5")
    assert result.returncode == 0
    assert "0 contradictions" in result.stdout
