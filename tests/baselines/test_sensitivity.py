"""Sensitivities beside trainings on all labellings, and radii beside exact ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian, small_cap

from labelcert import certify, certify_baseline
from labelcert.baselines.sensitivity import hinge_moves
from labelcert.problem import Problem
from labelcert.svm import train


def singular(m: int, n: int, *, seed: int) -> tuple[Any, Any, Any]:
    """A linear kernel of rank 2 with duplicates: whole numbers, so that it is singular exactly."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (m + n, 2)).astype(float)
    points[1] = points[0]
    labels = np.arange(m) % 2
    K = points @ points.T
    return K[:m, :m], labels, K[m:, :m]


@pytest.mark.parametrize("C", [0.05, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_one_label_moves_a_score_further(seed: int, C: float) -> None:
    for K, labels, rows in (gaussian(7, 10, seed=seed), singular(7, 10, seed=seed)):
        problem = Problem.build(K, labels, rows, C)
        moves = hinge_moves(problem, problem.K_test)
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=7)))
        scores = {tuple(y): rows @ train(problem.K_train, y, C) for y in signs}
        largest = np.zeros_like(moves)
        for y in signs:
            for i in range(7):
                other = y.copy()
                other[i] = -y[i]
                largest[:, i] = np.maximum(largest[:, i], np.abs(scores[tuple(y)] - scores[tuple(other)]))
        assert np.all(largest <= moves + 1e-9)
        assert np.all(moves <= 100 * C * (1 + np.abs(rows).sum(axis=1, keepdims=True)))


def test_the_bound_is_attained() -> None:
    """One label, at its cap on both sides: the score moves by 2C times the row."""
    problem = Problem.build(np.eye(2), [0, 1], [[1.0, 0.0]], 0.25)
    assert hinge_moves(problem, problem.K_test)[0, 0] == pytest.approx(2 * 0.25)


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("per_label", [True, False])
def test_no_radius_exceeds_that_of_the_model(loss: str, classes: int, per_label: bool) -> None:
    beyond_one = 0
    for seed in range(4):
        K, labels, rows = blobs(9, 15, classes=classes, seed=seed)
        rows[3] = 0.0
        for C in (0.3 * small_cap(K), 0.3, 5.0):
            exact = certify(K, labels, rows, C, loss=loss, max_flips=4)
            cert = certify_baseline(
                K, labels, rows, C, using="sensitivity", loss=loss, max_flips=4, per_label=per_label
            )
            assert np.all(cert.radius_lower <= exact.radius_lower)
            assert np.array_equal(cert.predictions, exact.predictions)
            assert np.array_equal(cert.radius_lower > 0, exact.radius_lower > 0)
            assert cert.radius_lower[3] == 0
            beyond_one += int((cert.radius_lower > 1).sum())
    assert beyond_one > 0


def test_duplicates_and_singular_kernels() -> None:
    for seed in range(5):
        K, labels, rows = singular(8, 10, seed=seed)
        for C in (0.01, 1.0):
            exact = certify(K, labels, rows, C)
            cert = certify_baseline(K, labels, rows, C, using="sensitivity")
            assert np.all(cert.radius_lower <= exact.radius_lower)


def test_ridge_sensitivities_are_exact_where_every_flip_hurts() -> None:
    """Labels in the direction of the row: then no flip helps, and the r largest are the best attack."""
    rows = np.array([[1.0, -0.7, 0.45, -0.4, 0.2]])
    labels = (rows[0] > 0).astype(int)
    exact = certify(np.eye(5), labels, rows, 0.5, loss="square")
    cert = certify_baseline(np.eye(5), labels, rows, 0.5, using="sensitivity", loss="square")
    assert cert.radius_lower.tolist() == exact.radius_lower.tolist() == [2]
    labels[1] = 1
    worse = certify_baseline(np.eye(5), labels, rows, 0.5, using="sensitivity", loss="square")
    assert worse.radius_lower.tolist() == [1]


def test_one_sensitivity_for_all_labels_proves_less() -> None:
    K, labels, rows = blobs(30, 20, classes=2, seed=1)
    each, one = (
        certify_baseline(K, labels, rows, 0.01, using="sensitivity", loss="square", per_label=own)
        for own in (True, False)
    )
    assert np.all(one.radius_lower <= each.radius_lower)
    assert np.any(one.radius_lower < each.radius_lower)
