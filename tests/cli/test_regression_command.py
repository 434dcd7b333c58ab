"""``labelcert regression``, and ``labelcert verify`` of what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.command_line import Call

import labelcert


@pytest.fixture
def prices(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).round(2)
    rows = np.column_stack([X, (3 * X[:, 0] + rng.normal(size=30)).round(1)])
    text = "\n".join(f"house {i},{a},{b},{price}" for i, (a, b, price) in enumerate(rows.tolist()))
    (tmp_path / "prices.csv").write_text(f"house,size,age,price\n{text}\n")
    (tmp_path / "new.csv").write_text("house,age,size\nmine,0.5,1.0\nyours,-0.5,0.25\n")
    return "prices.csv"


def test_what_it_writes_is_verified(call: Call, prices: str) -> None:
    asked = ("regression", prices, "--target", "price", "--row-column", "house", "--test", "new.csv", "--change", "1")
    more = ("--max-changes", "4", "--threshold", "1", "--standardize", "--out", "a.cert", "--problem", "a.npz")
    code, shown, error = call(*asked, *more)
    assert code == 0, error
    assert "\nmine " in shown
    assert "2 predictions, 30 targets, up to 4 changes" in shown
    assert call("show", "a.cert")[1] == shown
    cert = labelcert.RegressionCertificate.load("a.cert")
    assert cert.features is not None
    assert cert.features.tolist() == ["size", "age"]
    code, shown, _ = call("verify", "a.cert", "--problem", "a.npz")
    assert code == 0
    assert shown.endswith("accepted: everything that the certificate claims is proved\n")
    with np.load("a.npz") as arrays:
        np.savez("b.npz", **{**arrays, "alpha": np.array(2.0)})
    assert call("verify", "a.cert", "--problem", "b.npz")[0] == 1
    code, shown, _ = call(*asked, "--json")
    found = json.loads(shown)
    assert [row["row"] for row in found["predictions"]] == ["mine", "yours"]
    assert found["max_changes"] == 30
    assert call("verify", "a.cert")[0] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "price"), "--target price --change 50"),
        (("--target", "cost", "--change", "1", "--row-column", "house"), "expected the column 'cost'"),
        (("--target", "price", "--change", "1"), "30 of 30 rows hold something else, such as 'house 0' (line 2 of"),
        (("--target", "price", "--change", "-1", "--row-column", "house"), "must be one number of at least 0"),
    ],
)
def test_what_is_wrong_is_said(call: Call, prices: str, options: tuple[str, ...], message: str) -> None:
    code, _, error = call("regression", prices, *options)
    assert code == 2
    assert message in error
