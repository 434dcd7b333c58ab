"""The section of the benchmarks about linear models, at a size for a test."""

from __future__ import annotations

from benchmarks.sections import probes


def test_rows_of_the_section() -> None:
    (row,) = probes(True, [("LogisticRegression", 700, 8, 2, 1, None)]).rows
    found, _, tried = row["replayed"].partition(" of ")
    assert row["exact"]
    assert int(tried) > 0
    assert found == tried
