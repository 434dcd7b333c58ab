from __future__ import annotations

import math

import pandas as pd
import pytest

from labelcert.paper import published
from labelcert.paper.comparing_numbers import (
    average_ranks,
    compare_certified,
    compare_drops,
    compare_ranks,
    compare_thresholds,
    drops,
)
from labelcert.paper.paper_studies import paper_study
from labelcert.studies.printed_numbers import Agreement, count_text


def as_published(*datasets: str) -> pd.DataFrame:
    """A summary that holds the published collective numbers as if they were ours."""
    full = [n for n in published.certified() if n.table.startswith("app_tab") and n.certificate == "collective"]
    return pd.DataFrame(
        [
            {
                "dataset": n.dataset,
                "dataset_name": n.dataset,
                "model": n.model,
                "model_name": n.model,
                "certificate": "collective",
                "kind": "collective",
                "epsilon": n.epsilon,
                "flips": 1,
                "mean_lower": n.mean,
                "mean_upper": n.mean,
                "std": n.std,
                "seeds": 5,
                "seeds_missing": 0,
                "nodes": 250,
            }
            for n in full
            if n.dataset in datasets
        ]
    )


def test_the_paper_agrees_with_itself() -> None:
    found = compare_certified(paper_study("cora-ml-b"), as_published("cora-ml-b"))
    assert len(found) == 56
    assert {number.verdict for number in found} == {Agreement.EQUAL}
    assert count_text(found) == "56 of 56 cells equal, 0 within one node, 0 further off"


def test_a_missing_seed_is_no_result() -> None:
    summary = as_published("cora-ml-b")
    summary.loc[0, "seeds_missing"] = 1
    found = compare_certified(paper_study("cora-ml-b"), summary)
    assert [number.verdict for number in found].count(Agreement.NONE) == 1


def test_ranks_of_the_published_tables_are_close_to_the_published_ranks() -> None:
    """Rounded ratios break ties, so that a few ranks differ a little; most are the printed ones."""
    ranks = average_ranks(as_published("cora-ml-b", "citeseer-b", "csbm"))
    found = compare_ranks(ranks)
    assert len(found) == 96
    assert sum(number.verdict == Agreement.EQUAL for number in found) >= 80
    assert all(abs(number.difference) <= 1.0 for number in found)


def test_drops_of_the_published_tables_are_those_of_the_text() -> None:
    steps = ((0.05, 0.1), (0.2, 0.25), (0.1, 0.3), (0.3, 0.5))
    found = compare_drops(drops(as_published("cora-ml-b", "citeseer-b"), steps))
    assert len(found) == 9
    assert {number.verdict for number in found} == {Agreement.EQUAL}


@pytest.mark.parametrize(("zero_from", "verdict"), [(0.2, Agreement.EQUAL), (0.15, Agreement.OFF)])
def test_thresholds(zero_from: float, verdict: Agreement) -> None:
    rows = [
        {
            "dataset_name": "cora-ml-b",
            "model_name": "gcn",
            "kind": "accuracy",
            "epsilon": e,
            "mean_upper": 0.0 if e >= zero_from else 5.0,
        }
        for e in (0.1, 0.15, 0.2)
    ]
    [number] = compare_thresholds(pd.DataFrame(rows))
    assert number.verdict == verdict
    assert not math.isnan(number.ours_lower)
