"""Numbers of studies: their bounds, how they compare with printed ones, and how tables of them are written."""

from __future__ import annotations

import pytest

from labelcert.studies.printed_numbers import compared
from labelcert.studies.report import Sheet
from labelcert.studies.schema import CertificateSpec, Kind
from labelcert.studies.tidy_tables import bounds


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ((50.04, 50.04), "equal"),
        ((50.4, 50.4), "within one node"),
        ((48.0, 48.0), "further off"),
        ((48.0, 52.0), "not exact"),
    ],
)
def test_numbers_beside_printed_ones(ours: tuple[float, float], verdict: str) -> None:
    place = ("t", "d", "m", "c", "0.1")
    assert str(compared(*place, ours=ours, printed=50.0, rounding=0.05, one_node=0.4).verdict) == verdict


def test_bounds_beyond_the_largest_budget() -> None:
    result = {"n_test": 4, "max_flips": 1, "changed_lower": [0, 1], "changed_upper": [0, 2]}
    assert [bounds(result, Kind.COLLECTIVE, b) for b in (1, 2)] == [(0.5, 0.75), (0.0, 0.75)]


def test_tables_in_markdown() -> None:
    lines = ["### T", "", "| a | b |", "|---|---|", "| 1 | 2 |", ""]
    assert Sheet("T", ("a", "b"), (("1", "2"),)).markdown().split("\n") == lines


def test_certificates_have_labels() -> None:
    assert CertificateSpec(kind=Kind.ACCURACY, engine="relaxed").label == "relaxed accuracy"
