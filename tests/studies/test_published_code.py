from __future__ import annotations

import itertools

import numpy as np

from labelcert import certify
from labelcert.studies.published_code import certify_as_published, contrary_nodes
from labelcert.svm import train


def test_contrary_nodes_count_as_changed_until_their_score_turns() -> None:
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
    cert = certify_as_published(K, labels, rows, C, contrary, max_flips=6, workers=1)
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
    assert cert.radius_lower[0] == 0
    plain = certify(K, labels, rows, C)
    assert cert.radius_lower[1:].tolist() == plain.radius_lower[1:].tolist()
    assert cert.predictions[0] != plain.predictions[0]


def test_small_dual_variables_decide_a_prediction() -> None:
    K = np.diag([1.0, 1.0])
    C = 5e-5
    rows = np.array([[1.0, 0.2], [0.0, 0.0]])
    assert contrary_nodes(K, np.array([1, 0]), rows, C).tolist() == [True, False]
    assert contrary_nodes(K, np.array([1, 0]), rows, 1.0).tolist() == [False, False]
    assert not contrary_nodes(np.eye(3), np.array([0, 1, 2]), np.eye(3), C).any()
