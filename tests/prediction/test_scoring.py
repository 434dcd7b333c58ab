"""Retraining from whatever was trained before, and a word about kernels that float64 cannot handle."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import certify
from labelcert.prediction import scoring
from labelcert.prediction.scoring import RetrainingScorer
from labelcert.problem import Problem
from labelcert.svm.walking import MANY_LABELS


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("m", [12, MANY_LABELS + 8, 130])
def test_it_does_not_matter_what_was_trained_before(m: int, loss: str) -> None:
    K, labels, rows = blobs(m, 6, classes=2)
    problem = Problem.build(K, labels, rows, 1.0, loss=loss)
    rng = np.random.default_rng(3)
    one = RetrainingScorer(problem)
    for step in range(30):
        flips = rng.permutation(m)[: rng.integers(0, m // 2)] if step % 7 == 0 else rng.permutation(m)[:3]
        y = problem.y.copy()
        y[flips] *= -1.0
        sharp = bool(step % 2)
        found, fresh = one.train(y, sharp=sharp), RetrainingScorer(problem).train(y)
        assert found.sharp or not sharp
        difference = np.abs(one.scores(found) - one.scores(fresh))
        assert found.tau < 1e-4
        assert np.all(difference <= found.tau + fresh.tau)
        assert np.array_equal(one.signs(found), one.signs(fresh))


def test_unscaled_columns_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3)) * [1e7, 1.0, 1e-3]
    K = X @ X.T
    labels = (X[:8, 1] > 0).astype(int)
    labels[:2] = [0, 1]
    monkeypatch.setattr(scoring, "PATIENCE_SECONDS", 0.0)
    with pytest.warns(UserWarning, match="Standardise the features"):
        cert = certify(K[:8, :8], labels, K[8:, :8], 1e-3, workers=1)
    assert cert.run.stages[0].statistics["decided_in_rational_arithmetic"] > 0
