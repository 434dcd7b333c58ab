"""The benchmark of linear models, at a size for a test."""

from __future__ import annotations

import sys

from benchmarks.probes import measured


def test_rows_in_processes_of_their_own() -> None:
    options = {"name": "LogisticRegression", "m": 700, "features": 8, "classes": 2, "flips": 1, "time_limit": None}
    row = measured(("probe", {**options, "refits": 5}, ""), sys.executable, 300.0)
    found, _, tried = row["replayed by refits"].partition(" of ")
    assert row["exact"] == "yes"
    assert int(tried) > 0
    assert found == tried


def test_a_row_that_fails_says_so() -> None:
    assert (
        "no such estimator"
        in measured(("probe", {"name": "no such estimator", "m": 9, "features": 2}, ""), sys.executable, 60.0)["asked"]
    )
    row = measured(("ridge", {"m": 0, "flips": 1, "features": 2}, ""), sys.executable, 60.0)
    assert row["answer"]
    assert (
        measured(("ridge", {"m": 9, "flips": 1, "features": 2}, ""), sys.executable, 0.1)["answer"]
        == "nothing in 0.1 s"
    )
