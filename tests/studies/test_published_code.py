from __future__ import annotations

import itertools

import numpy as np

from labelcert import certify
from labelcert.studies.execution import summary
from labelcert.studies.published_code import contrary_nodes, with_contrary
from labelcert.svm import train


def test_contrary_nodes_count_as_changed_until_their_score_turns() -> None:
    """Against brute force: the certificate of the other nodes, and the contrary one beside it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 3))
    K = X @ X.T + 1e-3 * np.eye(6)
    rows = rng.normal(size=(5, 3)) @ X.T
    labels = np.array([0, 1, 0, 1, 1, 0])
    y = 2.0 * labels - 1.0
    C = 0.3
    truth = np.zeros(5, dtype=np.int64)
    clean = rows @ train(K, y, C) > 0
    contrary = np.array([True, False, False, False, False])
    rest = certify(K, labels, rows[~contrary], C)
    found = with_contrary(summary(rest, truth[~contrary], C), rest, K, rows[contrary], C)
    best = np.zeros(7, dtype=int)
    for size in range(7):
        for flips in itertools.combinations(range(6), size):
            flipped = y.copy()
            flipped[list(flips)] *= -1
            after = rows @ train(K, flipped, C) > 0
            best[size] = max(best[size], int(((after != clean) != contrary).sum()))
    best = np.maximum.accumulate(best)
    assert found["n_test"] == 5
    assert (np.array(found["changed_lower"]) <= best).all()
    assert (best <= np.array(found["changed_upper"])).all()
    assert found["survive_lower"][0] == 4


def test_small_dual_variables_decide_a_prediction() -> None:
    K = np.diag([1.0, 1.0])
    C = 5e-5
    rows = np.array([[1.0, 0.2], [0.0, 0.0]])
    assert contrary_nodes(K, np.array([1, 0]), rows, C).tolist() == [True, False]
    assert contrary_nodes(K, np.array([1, 0]), rows, 1.0).tolist() == [False, False]
    assert not contrary_nodes(np.eye(3), np.array([0, 1, 2]), np.eye(3), C).any()
