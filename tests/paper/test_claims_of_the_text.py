"""Verdicts on claims: every claim finds its numbers, and verdicts follow from them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from labelcert.paper.claims import CLAIMS, NEEDED, Check, Claim, Found, claims_sheet
from labelcert.paper.collapse_report import CollapsedCurve
from labelcert.paper.paper_studies import paper_study
from labelcert.studies import Study


def filled(study: Study, rng: np.random.Generator) -> dict[tuple[str, str, str, str, float], float]:
    """A number for every place of a study's tables."""
    return {
        (study.name, dataset.label, own.label, certificate.label, at): rng.uniform(0, 100)
        for dataset in study.datasets
        for model in study.models
        if not (own := model.on(dataset)).skip
        for certificate in study.certificates
        for at in study.budgets or study.flips
    }


def test_every_claim_finds_all_its_numbers() -> None:
    rng = np.random.default_rng(0)
    means = {}
    for name in NEEDED:
        means |= filled(paper_study(name), rng)
    study = paper_study("collapse")
    told = {"predicted": [1, 3], "after": [[1, 3], [4, 0]], "flips": [[0, 0], [0, 1]]}
    curves = [
        CollapsedCurve(dataset.label, model.label, 0, 4, 1, np.array([0, 3]), told)
        for dataset in study.datasets
        for model in study.models
    ]
    moved = {("Citeseer", "GCN"): Counter({"nodes": 20, "runner-up alone": 19})}
    found = Found(means, curves, moved)
    for claim in CLAIMS:
        checks = list(claim.checks(found))
        assert checks, claim.text
        assert not [check for check in checks if math.isnan(check.by)], claim.text
        only = Found({key: value for key, value in means.items() if key[0] in claim.studies}, curves, moved)
        assert list(claim.checks(only)) == checks, f"{claim.text}: rests on studies that it does not name"
    rows = claims_sheet(found).rows
    assert len(rows) == len(CLAIMS)
    assert {row[3] for row in rows} <= {"holds", "partly", "not"}
    assert {row[3] for row in claims_sheet(Found({})).rows} == {"not computed"}


@pytest.mark.parametrize(
    ("by", "verdict"),
    [([1.0] * 20, "holds"), ([1.0] * 19 + [-1.0], "holds"), ([0.0, -1.0], "partly"), ([1.0, -1.0, -2.0], "not")],
)
def test_verdicts(by: list[float], verdict: str) -> None:
    claim = Claim("x", "y", (), lambda _: (Check(f"c{k}", value) for k, value in enumerate([*by, math.nan])))
    found, words = claim.judged(Found({}))
    assert found == verdict
    assert words.startswith(f"{sum(b >= 0 for b in by)} of {len(by)}")
    assert ("(-" in words) == (min(by) < 0)
