"""What commands print in terminals of several widths, and into a pipe: compared with files in ``terminal/``."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.cli.terminal.generate import COMMANDS, WIDTHS, file_of, plain
from tests.helpers.command_line import Call
from tests.helpers.problems import gaussian

from labelcert import certify
from labelcert.certification import Names
from labelcert.cli.printing import print_table, show
from labelcert.report.tables import listing


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal without colours, 80 columns wide."""
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_prints_what_is_stored(name: str, width: int | None, call: Call, terminal: pytest.MonkeyPatch) -> None:
    if width is None:
        terminal.delenv("FORCE_COLOR")
    terminal.setenv("COLUMNS", str(width or 80))
    code, shown, _ = call(*COMMANDS[name].split())
    assert code == 0
    assert plain(shown) == file_of(name, width).read_text(encoding="utf-8")


def test_the_first_certificate_fits_on_a_screen() -> None:
    for name in COMMANDS:
        shown = file_of(name, 80).read_text(encoding="utf-8").splitlines()
        assert len(shown) <= 30
        assert all(
            len(line) <= 80 for line in shown if "labelcert recheck" not in line and "cross-validated" not in line
        )


@pytest.mark.parametrize("width", [24, 40, 60, 80])
def test_no_word_is_broken_at_any_width(
    width: int, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    K, y, rows = gaussian(12, 30)
    names = Names(test=np.array([f"transaction-{t:05}" for t in range(30)]))
    cert = certify(K, np.array(["legitimate", "fraudulent"])[y], rows, 1.0, names=names)
    terminal.setenv("COLUMNS", str(width))
    show(cert, full=True)
    shown = plain(capsys.readouterr().out)
    words = set(re.findall(r"[a-z]{5,}", shown))
    terminal.delenv("FORCE_COLOR")
    show(cert, full=True)
    assert words <= set(re.findall(r"[a-z]{5,}", plain(capsys.readouterr().out)))
    assert shown.count("transaction-") == 30


def test_many_classes_stay_readable(terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    K, _, rows = gaussian(24, 20)
    show(certify(K, [f"class-{k:02}" for k in range(24)], rows, 1.0, max_flips=1), full=True)
    assert max(map(len, plain(capsys.readouterr().out).splitlines())) <= 80


def test_rows_become_paragraphs_where_no_table_fits(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "20")
    print_table(listing("Names", ("first", "second"), [("a" * 15, "b" * 15)]))
    assert plain(capsys.readouterr().out).split() == ["Names", "first:", "a" * 15 + ";", "second:", "b" * 15]
