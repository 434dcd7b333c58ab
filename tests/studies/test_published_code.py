from __future__ import annotations

import itertools

import numpy as np
import pytest

import labelcert
from labelcert.arrays import Float, Int
from labelcert.engines.freezing import Names
from labelcert.paper import published_code
from labelcert.problem import Problem
from labelcert.svm import train


def certified(K: Float, labels: Int, rows: Float, C: float, max_flips: int) -> labelcert.Certificate:
    options = {"engine": "auto", "time_limit": None, "workers": 1}
    return published_code.certify(K, labels, rows, C, names=Names(), max_flips=max_flips, **options)  # type: ignore[arg-type]


def test_contrary_nodes_count_as_changed_until_their_score_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against brute force."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 3))
    K = X @ X.T + 1e-3 * np.eye(6)
    rows = rng.normal(size=(5, 3)) @ X.T
    labels = np.array([0, 1, 0, 1, 1, 0])
    y = 2.0 * labels - 1.0
    C = 0.3
    clean = rows @ train(K, y, C) > 0
    contrary = np.array([True, False, False, False, False])
    monkeypatch.setattr(published_code, "published_predictions", lambda _: (clean != contrary).astype(np.int64))
    cert = certified(K, labels, rows, C, 6)
    best = np.zeros(7, dtype=int)
    for size in range(7):
        for flips in itertools.combinations(range(6), size):
            flipped = y.copy()
            flipped[list(flips)] *= -1
            after = rows @ train(K, flipped, C) > 0
            best[size] = max(best[size], int(((after != clean) != contrary).sum()))
    best = np.maximum.accumulate(best)
    assert cert.exact
    assert cert.collective_lower.tolist() == best.tolist()
    assert cert.radius_lower[0] == cert.radius_upper[0] == 0
    plain = labelcert.certify(K, labels, rows, C)
    assert cert.radius_lower[1:].tolist() == plain.radius_lower[1:].tolist()
    assert cert.predictions[0] != plain.predictions[0]


def test_small_dual_variables_decide_a_prediction() -> None:
    K, labels, rows = np.eye(2), np.array([1, 0]), np.array([[1.0, 0.2], [0.0, 0.0]])

    def predictions(C: float) -> list[int]:
        return published_code.published_predictions(Problem.build(K, labels, rows, C)).tolist()

    assert predictions(5e-5) == [0, 0]
    assert predictions(1.0) == [1, 0]
    # The second node has no prediction of the model, either way: its score is 0.
    assert certified(K, labels, rows, 5e-5, 1).radius_upper.tolist() == [0, 0]
    assert certified(K, labels, rows, 1.0, 1).radius_lower.tolist() == [1, 0]


def test_more_classes_are_predicted_by_the_model_itself() -> None:
    cert = certified(np.eye(3), np.array([0, 1, 2]), np.eye(3), 5e-5, 1)
    assert cert.predictions.tolist() == [0, 1, 2]
    assert np.all(cert.radius_lower > 0)


def test_an_indefinite_kernel_is_shifted() -> None:
    K = np.array([[0.5, 1.0], [1.0, 0.5]])
    cert = certified(K, np.array([0, 1]), np.array([[1.0, 0.2]]), 1.0, 2)
    shift = published_code.diagonal_shift(K)
    assert shift == pytest.approx(0.5)
    shifted = labelcert.certify(K + shift * np.eye(2), [0, 1], [[1.0, 0.2]], 1.0)
    assert np.array_equal(cert.radius_lower, shifted.radius_lower)
