"""Shares of predictions are rounded to the safe side, alike everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import labelcert
from labelcert.report import tables
from labelcert.text import between, per_cent

SOURCE = Path(labelcert.__file__).parent


def test_no_share_is_formatted_by_hand() -> None:
    allowed = {
        ("report/tables.py", "{b / total:.0%}"),  # a budget
        ("progress.py", "{100.0 * min(1.0, done / total):.0f}"),  # how far work is
    }
    found = {
        (str(path.relative_to(SOURCE)), text)
        for path in SOURCE.rglob("*.py")
        for text in re.findall(
            r"\{[^{}\n]*:\.\d%\}|\{100(?:\.0)? \* [^{}\n]*:\.\df\}", path.read_text(encoding="utf-8")
        )
    }
    assert found == allowed


@pytest.mark.parametrize("n", [3, 7, 26, 1000, 12_345])
def test_no_proved_share_is_rounded_up(n: int) -> None:
    for k in np.unique(np.linspace(0, n, 200).astype(int)).tolist():
        for share in (k / n, 1.0 - (n - k) / n):
            assert int(per_cent(share).replace(".", "")) == 1000 * k // n
            assert int(per_cent(share, up=True).replace(".", "")) == -(-1000 * k // n)
    assert between(1 / 3, 1 - 2 / 3) == "33.3"


def test_twelve_of_twenty_six() -> None:
    H = [[1, 0, 0, 0]] * 14 + [[1, 1, 1, 0]] * 12
    cert = labelcert.certify_linear(H, ["a", "a", "a", "b"])
    assert cert.certified_ratio(flips=1) == 12 / 26
    shown = [cert.summary(), cert._repr_html_(), cert.to_latex(), labelcert.compare({"a": cert}).to_latex()]
    table = tables.budget_table(cert)
    for text in [*shown, " ".join(map(str, table.columns[3]._cells))]:
        assert "46.1" in text
        assert "46.2" not in text


def test_a_curve_that_nobody_asked_for() -> None:
    H = [[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0, 0.5]]
    cert = labelcert.certify_linear(H, ["a", "a", "b", "b", "b"], collective=False)
    table = tables.budget_table(cert)
    assert "not asked for" in cert.summary()
    assert "not asked for" in cert._repr_html_()
    assert "not asked for" in cert.to_latex()
    assert list(table.columns[4]._cells) == list(table.columns[5]._cells) == ["not asked for"] * table.row_count
