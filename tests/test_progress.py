"""What long work says where no bar can be shown."""

from __future__ import annotations

import time

import pytest
from numba.core.event import trigger_event

from labelcert import progress
from labelcert.progress import COMPILING, progress_report


def test_lines_where_no_bar_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.5)
    with progress_report("walking", True) as show:
        show.note("one flip")
        show.report(1, 4)
        time.sleep(1.6)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("walking: one flip: 25% after ") for line in lines)
    with progress_report("walking", False) as show:
        show.report(1, 4)
    assert capsys.readouterr().err == ""


def test_compiling_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_report("walking", True), trigger_event("numba:compile"):
        time.sleep(2.2)
    assert capsys.readouterr().err == f"{COMPILING}\n"
